#include "host/keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
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

// What stderr has heard after a peer could not be let in again and again.
int check_words() {
  const std::string address = address_of_keeper();
  int words[2] = {-1, -1};
  if (::pipe2(words, O_NONBLOCK) != 0 || ::dup2(words[1], STDERR_FILENO) < 0) return 30;
  const Fd visitor(::socket(AF_UNIX, SOCK_STREAM, 0));
  const auto taken = static_cast<rlim_t>(visitor.get()) + 1;
  const rlimit limit{taken, taken};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 31;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::copy(address.begin(), address.end(), name.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
  if (::connect(visitor.get(), reinterpret_cast<const sockaddr*>(&name), bytes) != 0) return 32;
  pollfd first{words[0], POLLIN, 0};
  if (::poll(&first, 1, 60000) != 1) return 34;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // so long it tries again, every 20 ms
  std::array<char, 4096> heard{};
  const auto length = ::read(words[0], heard.data(), heard.size());
  return length <= 0 ? 33 : static_cast<int>(std::count(heard.begin(), heard.begin() + length, '\n'));
}

TEST(KeeperProcess, SaysOnceThatItCanLetNobodyIn) {
  Child child(check_words);
  EXPECT_EQ(child.wait(), 1);
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
