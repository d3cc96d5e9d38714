#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "host/host_arena.h"
#include "host/keeper.h"
#include "host/peer_arena.h"
#include "platform/child.h"
#include "platform/unix_socket.h"
#include "support/ranks.h"

// Arenas of other processes: how they are found and mapped, who is refused, and when memory goes back.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline(30s); }

std::string to_words(const ArenaAddress& address) {
  std::ostringstream text;
  text << address;
  return text.str();
}

ArenaAddress from_words(const std::string& text) {
  ArenaAddress address;
  std::istringstream words(text);
  words >> address;
  return address;
}

// Forked owner of an arena that shows its address and waits until it is told to go.
class Owner {
 public:
  explicit Owner(const std::function<void()>& before_it_is_found = [] {})
      : process_(1, [=](const Rank& rank) {
          ArenaAddress address;
          ASSERT_TRUE(ArenaAddress::own(address).ok());
          HostArena* arena = nullptr;
          ASSERT_TRUE(HostArena::get(arena).ok());
          Block block;
          ASSERT_TRUE(arena->allocate(100, block).ok());
          std::strcpy(reinterpret_cast<char*>(block.data), "a word from the owner");
          before_it_is_found();
          const auto board = rank.meeting("owner");
          ASSERT_TRUE(board->put("address", to_words(address)).ok());
          ASSERT_TRUE(board->put("offset", std::to_string(block.offset)).ok());
          std::string ignored;
          ASSERT_TRUE(board->get("go", Deadline(1h), ignored).ok());
        }) {
    EXPECT_TRUE(board().get("address", soon(), text_).ok());
    EXPECT_TRUE(board().get("offset", soon(), offset_).ok());
  }

  ArenaAddress address() const { return from_words(text_); }
  std::size_t offset() const { return std::stoul(offset_); }
  Bootstrap& board() {
    if (board_ == nullptr) board_ = process_.onlooker().meeting("owner");
    return *board_;
  }
  void kill() { process_.signal(0, SIGKILL); }
  void leave() { EXPECT_TRUE(board().put("go", "").ok()); }
  int wait() { return process_.wait(0); }

 private:
  Processes process_;
  std::unique_ptr<Bootstrap> board_;
  std::string text_;
  std::string offset_;
};

TEST(PeerArenaProcess, IsMappedOnceAndShowsWhatItsOwnerWrote) {
  Owner owner;
  std::shared_ptr<PeerArena> first, second;
  Status status = attach(owner.address(), soon(), first);
  ASSERT_TRUE(status.ok()) << status.message();
  ASSERT_TRUE(attach(owner.address(), soon(), second).ok());
  EXPECT_EQ(first, second);
  EXPECT_STREQ(reinterpret_cast<char*>(first->at(owner.offset(), 100)), "a word from the owner");
  EXPECT_FALSE(first->dead());
  owner.kill();
  while (!first->dead()) std::this_thread::yield();
  EXPECT_STREQ(reinterpret_cast<char*>(first->at(owner.offset(), 100)), "a word from the owner");
}

TEST(PeerArenaProcess, GivesNoAddressesOutsideItself) {
  Owner owner;
  std::shared_ptr<PeerArena> peer;
  const ArenaAddress address = owner.address();
  ASSERT_TRUE(attach(address, soon(), peer).ok());
  EXPECT_NE(peer->at(address.bytes - 1, 1), nullptr);
  EXPECT_EQ(peer->at(address.bytes - 1, 2), nullptr);
  EXPECT_EQ(peer->at(address.bytes + 1, 0), nullptr);
  EXPECT_EQ(peer->at(~std::uint64_t{0}, 2), nullptr);
  EXPECT_EQ(peer->at(1, ~std::uint64_t{0}), nullptr);
}

TEST(PeerArenaProcess, ReadsWhatLiesElsewhereInItsOwnersMemoryWhileThatLives) {
  static int number = 1;  // of this process; the forked owner has its own
  const auto address = reinterpret_cast<std::uintptr_t>(&number);
  Owner owner;
  number = 2;
  std::shared_ptr<PeerArena> peer;
  ASSERT_TRUE(attach(owner.address(), soon(), peer).ok());
  EXPECT_TRUE(peer->memory_readable());
  int got = 0;
  auto* to = reinterpret_cast<std::byte*>(&got);
  EXPECT_EQ(peer->read_memory(to, address, sizeof(got)), 0);
  EXPECT_EQ(got, 1);
  EXPECT_EQ(peer->read_memory(to, 1, sizeof(got)), EFAULT);
  owner.kill();
  while (!peer->dead()) std::this_thread::yield();
  EXPECT_EQ(peer->read_memory(to, address, sizeof(got)), ESRCH);
  EXPECT_FALSE(peer->memory_readable());
}

TEST(PeerArenaProcess, RefusesAWrongSecretAndGoesOnServingOthers) {
  Owner owner;
  ArenaAddress wrong = owner.address();
  wrong.secret[1] ^= 1;
  std::shared_ptr<PeerArena> peer;
  EXPECT_FALSE(attach(wrong, soon(), peer).ok());
  EXPECT_EQ(peer, nullptr);
  EXPECT_TRUE(attach(owner.address(), soon(), peer).ok());
}

TEST(PeerArenaProcess, OutlivesStrangersWhoConnectAndSayNothingOrHalfAWord) {
  Owner owner;
  Fd silent, brief;
  ASSERT_TRUE(connect_abstract(keeper_address(owner.address().id), soon(), silent).ok());
  ASSERT_TRUE(connect_abstract(keeper_address(owner.address().id), soon(), brief).ok());
  ASSERT_TRUE(send_exact(brief, "half", 4, soon()).ok());
  brief = Fd();
  std::shared_ptr<PeerArena> peer;
  const Status status = attach(owner.address(), soon(), peer);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(PeerArenaProcess, IsGivenToWhoWasStoppedBetweenItsComingAndItsFirstWord) {
  Owner owner;
  const ArenaAddress address = owner.address();
  Fd late;
  ASSERT_TRUE(connect_abstract(keeper_address(address.id), soon(), late).ok());
  std::shared_ptr<PeerArena> peer;
  ASSERT_TRUE(attach(address, soon(), peer).ok());  // nobody waits with it
  ASSERT_TRUE(send_exact(late, &address.secret, sizeof(address.secret), soon()).ok());
  Fd memory;
  const Status status = recv_descriptor(late, soon(), memory);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(PeerArenaProcess, OfAProcessThatDiedIsNotAwaitedWhileAChildOfItLivesOn) {
  int leash[2] = {-1, -1};
  ASSERT_EQ(::pipe(leash), 0);
  Fd held(leash[1]), leashed(leash[0]);
  Owner owner([&] {
    held = Fd();
    if (::fork() != 0) return;
    char nothing = 0;
    while (::read(leashed.get(), &nothing, 1) < 0) {
    }
    ::_exit(0);
  });
  owner.kill();
  EXPECT_NE(owner.wait(), 0);
  std::shared_ptr<PeerArena> peer;
  const Status status = attach(owner.address(), soon(), peer);
  EXPECT_EQ(status.code, Code::kPeerDied) << status.message();
}

TEST(PeerArenaProcess, CannotBeAskedForByWhoHasNoDescriptorLeftAndThatIsItsOwnFault) {
  Owner owner;
  const ArenaAddress address = owner.address();
  Child child([&] {
    HostArena* own = nullptr;
    if (!HostArena::get(own).ok()) return 1;
    const Fd next(::dup(STDERR_FILENO));
    const auto taken = static_cast<rlim_t>(next.get()) + 1;
    const rlimit limit{taken, taken};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    std::shared_ptr<PeerArena> peer;
    return attach(address, soon(), peer).code == Code::kSystem ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(PeerArenaProcess, OfAProcessThatHasEndedIsNotTakenForOneElsewhere) {
  Owner owner;
  std::shared_ptr<PeerArena> peer;
  EXPECT_NE(owner.address().network, 0u);
  owner.leave();
  EXPECT_EQ(owner.wait(), 0);
  const Status status = attach(owner.address(), soon(), peer);
  EXPECT_EQ(status.code, Code::kPeerDied);
  EXPECT_NE(status.message().find("process " + std::to_string(owner.address().pid)), std::string::npos);
  EXPECT_NE(status.message().find("has ended"), std::string::npos) << status.message();
}

TEST(PeerArenaProcess, OfAProcessThatMayRunElsewhereIsUnreachable) {
  Owner owner;
  owner.leave();
  EXPECT_EQ(owner.wait(), 0);
  std::shared_ptr<PeerArena> peer;
  ArenaAddress there = owner.address(), hidden = there, copied = there;
  ++there.network;
  hidden.network = 0;            // it could not tell
  copied.host = "another-host";  // of a machine made from the same snapshot, say
  for (const ArenaAddress& address : {there, hidden, copied}) {
    const Status status = attach(address, soon(), peer);
    EXPECT_EQ(status.code, Code::kUnreachable);
    EXPECT_NE(status.message().find("does not share memory"), std::string::npos) << status.message();
  }
}

// As Landlock and profiles of AppArmor or seccomp do.
bool forbid_connections() {
  sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_connect, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(steps), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(PeerArenaProcess, OfALivingProcessThatThisOneIsNotLetToIsUnreachable) {
  Owner owner;
  const ArenaAddress address = owner.address();
  Child child([&] {
    if (!forbid_connections()) return 1;
    std::shared_ptr<PeerArena> peer;
    const Status status = attach(address, soon(), peer);
    if (status.message().find("Operation not permitted") == std::string::npos) return 2;
    return status.code == Code::kUnreachable ? 0 : 3;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(PeerArenaProcess, RefusesAnotherKernelAndASizeThatIsNotTrue) {
  Owner owner;
  std::shared_ptr<PeerArena> peer;
  ArenaAddress elsewhere = owner.address();
  elsewhere.boot_id = "another";
  EXPECT_EQ(attach(elsewhere, soon(), peer).code, Code::kUnreachable);
  ArenaAddress larger = owner.address();
  larger.bytes *= 2;
  EXPECT_EQ(attach(larger, soon(), peer).code, Code::kUnreachable);
  EXPECT_EQ(peer, nullptr);
}

// A stopped process does not answer. Who waits for it must not keep others from attaching elsewhere.
TEST(PeerArenaProcess, OfAStoppedProcessHoldsUpNobodyElse) {
  Owner stopped, running;
  const auto pid = static_cast<pid_t>(stopped.address().pid);
  ::kill(pid, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, WUNTRACED), pid);  // all its threads stand
  std::atomic<bool> given_up{false};
  std::thread stuck([&, address = stopped.address()] {
    std::shared_ptr<PeerArena> peer;
    EXPECT_FALSE(attach(address, Deadline(2s), peer).ok());
    given_up = true;
  });
  int attached = 0;
  while (!given_up) {
    std::shared_ptr<PeerArena> peer;
    EXPECT_TRUE(attach(running.address(), soon(), peer).ok());
    ++attached;
  }
  EXPECT_GT(attached, 5);
  stuck.join();
  stopped.kill();
}

}  // namespace
}  // namespace customccl::test
