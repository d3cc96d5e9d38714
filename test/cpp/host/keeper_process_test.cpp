#include "host/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "host/host_arena.h"
#include "host/tensor_memory.h"
#include "platform/child.h"
#include "platform/unix_socket.h"

namespace customccl::test {
namespace {

constexpr std::size_t kTensorBytes = 1'000'000;
constexpr std::size_t kFileBytes = 32 << 20;  // beyond what the arena has given out

// What a program does that closes all descriptors, those of others too, and opens something afterwards.
void give_all_numbers_to(int ours, int kept = -1) {
  for (int number = STDERR_FILENO + 1; number < 256; ++number) {
    if (number != ours && number != kept && ::fcntl(number, F_GETFD) >= 0) ::dup2(ours, number);
  }
}

// The keeper looks round when somebody comes, also with what it has listened to since before its descriptors were closed.
void visit_keeper(const std::string& address) {
  const Deadline deadline(std::chrono::seconds(60));
  Fd visitor;
  std::byte nothing{};
  if (connect_abstract(address, deadline, visitor).ok()) {
    static_cast<void>(recv_exact(visitor, &nothing, 1, deadline));  // until it hangs up
  }
}

std::string address_of_keeper() {
  HostArena* arena = nullptr;
  return HostArena::get(arena).ok() ? keeper_address(arena->header().id) : "";
}

int check_file() {
  auto& memory = TensorMemory::of_process();
  Block one;
  Block two;
  if (!memory.allocate(kTensorBytes, one).ok() || !memory.allocate(2 * kTensorBytes, two).ok()) return 10;
  const std::string address = address_of_keeper();
  const std::vector<std::byte> content(kFileBytes, std::byte{7});
  const int file = ::memfd_create("the program's", 0);
  if (::pwrite(file, content.data(), kFileBytes, 0) != static_cast<ssize_t>(kFileBytes)) return 11;
  give_all_numbers_to(file);
  memory.release(one, kTensorBytes);  // rings
  memory.release(two, 2 * kTensorBytes);
  memory.give_back_all();
  visit_keeper(address);
  Block refused;
  const Status status = memory.allocate(3 * kTensorBytes, refused);
  if (status.message().find("was closed by the program") == std::string::npos) return 12;

  struct stat facts{};
  if (::fstat(file, &facts) != 0 || facts.st_size != static_cast<off_t>(kFileBytes)) return 13;
  std::vector<std::byte> found(kFileBytes);
  if (::pread(file, found.data(), kFileBytes, 0) != static_cast<ssize_t>(kFileBytes)) return 14;
  return found == content ? 0 : 15;
}

int check_socket() {
  auto& memory = TensorMemory::of_process();
  Block one;
  if (!memory.allocate(kTensorBytes, one).ok()) return 20;
  const std::string address = address_of_keeper();
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 21;
  const std::string letter = "from the program";
  if (::send(ends[1], letter.data(), letter.size(), 0) != static_cast<ssize_t>(letter.size())) return 22;
  give_all_numbers_to(ends[0], ends[1]);
  memory.release(one, kTensorBytes);  // rings
  visit_keeper(address);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // so long it would have to take what is not its own
  std::array<char, 100> found{};
  const auto arrived = ::recv(ends[0], found.data(), found.size(), MSG_DONTWAIT);
  if (arrived != static_cast<ssize_t>(letter.size())) return 23;
  return ::recv(ends[1], found.data(), found.size(), MSG_DONTWAIT) < 0 && errno == EAGAIN ? 0 : 24;
}

TEST(KeeperProcess, LeavesAFileAloneThatGotItsNumbers) {
  Child child(check_file);
  EXPECT_EQ(child.wait(), 0);
}

TEST(KeeperProcess, LeavesASocketAloneThatGotItsNumbers) {
  Child child(check_socket);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace customccl::test
