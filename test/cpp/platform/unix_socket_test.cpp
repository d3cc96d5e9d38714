#include "platform/unix_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "child.h"
#include "platform/process.h"
#include "shared_page.h"

namespace customccl {
namespace {

using test::Child;
using test::kPage;
using test::Mapping;
using test::new_page;

Deadline guard() { return Deadline(std::chrono::seconds(60)); }  // against hanging; nothing is expected to take so long
Deadline soon() { return Deadline(std::chrono::milliseconds(2)); }

std::string fresh_name() { return "customccl-test-" + to_hex(random_id()); }

struct Pair {
  Fd left;
  Fd right;
};

Pair connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

void expect(const Status& status, Code code, std::string_view words) {
  EXPECT_EQ(status.code, code) << status.message();
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(UnixSocket, PassesMemoryAndIdentityBetweenProcesses) {
  const std::string name = fresh_name();
  Fd listener;
  ASSERT_TRUE(listen_abstract(name, listener).ok());
  Child child([&] {
    const MemoryFile file = new_page();
    const Mapping page(file);
    std::memset(page.base(), 42, kPage);
    Fd socket;
    if (!connect_abstract(name, guard(), socket).ok()) return 1;
    if (!send_descriptor(socket, file.fd, guard()).ok()) return 2;
    std::uint64_t answer = 0;
    if (!recv_exact(socket, &answer, sizeof(answer), guard()).ok()) return 3;
    return answer == 4242 && page.base()[1] == std::byte{43} ? 0 : 4;
  });

  Fd socket, descriptor;
  PeerCredentials peer;
  ASSERT_TRUE(accept_connection(listener, guard(), socket).ok());
  ASSERT_TRUE(peer_credentials(socket, peer).ok());
  EXPECT_EQ(peer.pid, child.pid());
  EXPECT_EQ(peer.uid, ::getuid());
  ASSERT_TRUE(recv_descriptor(socket, guard(), descriptor).ok());
  EXPECT_EQ(::fcntl(descriptor.get(), F_GETFD), FD_CLOEXEC);
  const Mapping page({std::move(descriptor), {}, ""});
  EXPECT_EQ(page.base()[0], std::byte{42});
  page.base()[1] = std::byte{43};
  const std::uint64_t answer = 4242;
  ASSERT_TRUE(send_exact(socket, &answer, sizeof(answer), guard()).ok());
  EXPECT_EQ(child.wait(), 0);
}

TEST(UnixSocket, ANameThatNobodyListensOnIsToldFromOneOutOfReach) {
  const std::string name = fresh_name();
  Fd socket;
  const Status status = connect_abstract(name, guard(), socket);
  expect(status, Code::kPeerLeft, name);
  expect(status, Code::kPeerLeft, "network namespace");
  EXPECT_FALSE(socket);
}

TEST(UnixSocket, NamesAreCheckedAndExclusive) {
  Fd first, second;
  expect(listen_abstract("", first), Code::kInvalidArgument, "not 0");
  expect(connect_abstract(std::string(108, 'x'), guard(), first), Code::kInvalidArgument, "not 108");
  ASSERT_TRUE(listen_abstract(fresh_name() + std::string(60, 'x'), first).ok());  // 107 bytes, all that fit
  const std::string name = fresh_name();
  ASSERT_TRUE(listen_abstract(name, first).ok());
  expect(listen_abstract(name, second), Code::kSystem, name);
}

TEST(UnixSocket, AClosedListenerFreesItsName) {
  const std::string name = fresh_name();
  Fd listener;
  ASSERT_TRUE(listen_abstract(name, listener).ok());
  listener = Fd();
  ASSERT_TRUE(listen_abstract(name, listener).ok());
}

TEST(UnixSocket, SilenceEndsAtTheDeadline) {
  Fd listener, accepted;
  ASSERT_TRUE(listen_abstract(fresh_name(), listener).ok());
  expect(accept_connection(listener, soon(), accepted), Code::kTimeout, "limit 2 ms");
  const Pair pair = connected();
  char byte = 0;
  Fd descriptor;
  expect(recv_exact(pair.left, &byte, 1, soon()), Code::kTimeout, "limit 2 ms");
  expect(recv_descriptor(pair.left, soon(), descriptor), Code::kTimeout, "limit 2 ms");
  expect(recv_exact(pair.left, &byte, 1, Deadline(Nanos(-1))), Code::kTimeout, "receive");
}

TEST(UnixSocket, AReaderThatNeverReadsEndsTheSenderAtTheDeadline) {
  const Pair pair = connected();
  const std::vector<char> much(std::size_t{16} << 20);
  expect(send_exact(pair.left, much.data(), much.size(), soon()), Code::kTimeout, "send");
}

TEST(UnixSocket, AFullBacklogIsWaitedForUntilTheDeadline) {
  const std::string name = fresh_name();
  Fd listener, first, second;
  ASSERT_TRUE(listen_abstract(name, listener).ok());
  ASSERT_EQ(::listen(listener.get(), 0), 0);  // room for one
  ASSERT_TRUE(connect_abstract(name, guard(), first).ok());
  expect(connect_abstract(name, soon(), second), Code::kTimeout, name);
  std::thread acceptor([&] {
    Fd accepted;
    EXPECT_TRUE(accept_connection(listener, guard(), accepted).ok());
  });
  EXPECT_TRUE(connect_abstract(name, guard(), second).ok());
  acceptor.join();
}

TEST(UnixSocket, APeerThatClosesIsNamedAsSuch) {
  Pair pair = connected();
  ASSERT_TRUE(send_exact(pair.right, "abc", 3, guard()).ok());
  pair.right = Fd();
  char bytes[8] = {};
  Fd descriptor;
  expect(recv_exact(pair.left, bytes, sizeof(bytes), guard()), Code::kPeerDied, "closed");
  EXPECT_STREQ(bytes, "abc");
  expect(recv_descriptor(pair.left, guard(), descriptor), Code::kPeerDied, "closed");
  expect(send_exact(pair.left, "x", 1, guard()), Code::kPeerDied, "closed");  // and no SIGPIPE
}

TEST(UnixSocket, DescriptorsAndBytesKeepTheirOrder) {
  const Pair pair = connected();
  const MemoryFile file = new_page();
  ASSERT_TRUE(send_exact(pair.left, "ab", 2, guard()).ok());
  ASSERT_TRUE(send_descriptor(pair.left, file.fd, guard()).ok());
  ASSERT_TRUE(send_exact(pair.left, "cd", 2, guard()).ok());
  char bytes[3] = {};
  Fd descriptor;
  ASSERT_TRUE(recv_exact(pair.right, bytes, 2, guard()).ok());
  EXPECT_STREQ(bytes, "ab");
  ASSERT_TRUE(recv_descriptor(pair.right, guard(), descriptor).ok());
  ASSERT_TRUE(recv_exact(pair.right, bytes, 2, guard()).ok());
  EXPECT_STREQ(bytes, "cd");
}

// Sends `count` copies of a descriptor with one byte, as a stranger might.
void send_raw(const Fd& socket, int fd, std::size_t count, char mark) {
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  iovec data{&mark, 1};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) std::memcpy(CMSG_DATA(part) + i * sizeof(int), &fd, sizeof(fd));
  }
  ASSERT_EQ(::sendmsg(socket.get(), &message, 0), 1);
}

TEST(UnixSocket, AnythingButOneDescriptorIsRefusedAndNothingLeaks) {
  const Pair pair = connected();
  const MemoryFile file = new_page();
  const auto before = open_descriptors();
  Fd descriptor;
  for (const std::size_t count : {0UL, 2UL, 3UL}) {
    send_raw(pair.left, file.fd.get(), count, 'D');
    expect(recv_descriptor(pair.right, guard(), descriptor), Code::kMismatch, "one descriptor");
  }
  send_raw(pair.left, file.fd.get(), 1, '?');
  expect(recv_descriptor(pair.right, guard(), descriptor), Code::kMismatch, "unknown mark");
  EXPECT_FALSE(descriptor);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(UnixSocket, ADescriptorForWhichThisProcessHasNoNumberIsAnErrorOfThisProcess) {
  Child child([] {
    const Pair pair = connected();
    const MemoryFile file = new_page();
    if (!send_descriptor(pair.left, file.fd, guard()).ok()) return 1;
    const Fd next(::dup(file.fd.get()));
    const auto taken = static_cast<rlim_t>(next.get()) + 1;
    const rlimit limit{taken, taken};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    Fd descriptor;
    const Status status = recv_descriptor(pair.right, guard(), descriptor);
    if (status.code != Code::kSystem) return 3;
    return status.message().find("ulimit -n") != std::string::npos ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(UnixSocket, SignalsDoNotDisturbAWait) {
  struct sigaction quiet{};
  quiet.sa_handler = [](int) {};  // without SA_RESTART
  struct sigaction previous{};
  ASSERT_EQ(::sigaction(SIGUSR1, &quiet, &previous), 0);
  const Pair pair = connected();
  const pthread_t receiver = ::pthread_self();
  std::thread sender([&] {
    for (int i = 0; i < 1000; ++i) ::pthread_kill(receiver, SIGUSR1);
    EXPECT_TRUE(send_exact(pair.left, "ok", 2, guard()).ok());
  });
  char bytes[3] = {};
  EXPECT_TRUE(recv_exact(pair.right, bytes, 2, guard()).ok());
  EXPECT_STREQ(bytes, "ok");
  sender.join();
  ::sigaction(SIGUSR1, &previous, nullptr);
}

TEST(UnixSocket, LargeMessagesArriveWhole) {
  const Pair pair = connected();
  std::vector<std::uint32_t> out(1 << 20);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint32_t>(i * 2654435761U);
  std::thread sender([&] { EXPECT_TRUE(send_exact(pair.left, out.data(), out.size() * 4, guard()).ok()); });
  std::vector<std::uint32_t> in(out.size());
  EXPECT_TRUE(recv_exact(pair.right, in.data(), in.size() * 4, guard()).ok());
  sender.join();
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace customccl
