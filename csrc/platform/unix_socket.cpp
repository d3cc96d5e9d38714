#include "platform/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "platform/errno_text.h"

namespace customccl {
namespace {

constexpr int kBacklog = 1024;  // the kernel lowers it to net.core.somaxconn
constexpr int kSocketFlags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
constexpr char kDescriptorMark = 'D';

timespec to_timespec(Nanos span) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::max(span, Nanos::zero()));
  const Nanos rest = std::max(span, Nanos::zero()) - seconds;
  return {static_cast<std::time_t>(seconds.count()), static_cast<long>(rest.count())};
}

Status timed_out(std::string_view what, const Deadline& deadline) {
  const auto milliseconds = [](Nanos span) {
    return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
  };
  return {Code::kTimeout, "Gave up trying to " + std::string(what) + " after " + milliseconds(deadline.elapsed()) +
                              " ms (limit " + milliseconds(deadline.limit()) + " ms): the peer does not respond."};
}

Status peer_closed(std::string_view what) {
  return {Code::kPeerDied, "Could not " + std::string(what) + ": the peer closed its end of the socket or died."};
}

// Sleeps until `fd` is ready for `events`; `what` completes "could not ...".
Status wait_ready(const Fd& fd, short events, std::string_view what, const Deadline& deadline) {
  for (;;) {
    pollfd entry{fd.get(), events, 0};
    const timespec left = to_timespec(deadline.left());
    const int ready = ::ppoll(&entry, 1, &left, nullptr);
    if (ready > 0) return {};  // errors too: the call that follows reports them
    if (ready < 0 && errno != EINTR) return system_error("Could not wait to " + std::string(what), errno);
    if (deadline.passed()) return timed_out(what, deadline);
  }
}

struct Address {
  sockaddr_un raw{};
  socklen_t bytes = 0;
};

// Abstract: a leading NUL, then the name; the length counts, there is no terminator.
Status make_address(const std::string& name, Address& out) {
  if (name.empty() || name.size() > sizeof(out.raw.sun_path) - 1) {
    return {Code::kInvalidArgument, "The name of an abstract socket must have 1 to " +
                                        std::to_string(sizeof(out.raw.sun_path) - 1) + " bytes, not " +
                                        std::to_string(name.size()) + "."};
  }
  out.raw.sun_family = AF_UNIX;
  std::memcpy(out.raw.sun_path + 1, name.data(), name.size());
  out.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return {};
}

// What to do after a socket call failed: wait and try again (ok), or give up.
Status wait_or_fail(const Fd& socket, short events, std::string_view what, const Deadline& deadline) {
  if (errno == EINTR) return {};
  if (errno == EAGAIN) return wait_ready(socket, events, what, deadline);
  if (errno == EPIPE || errno == ECONNRESET) return peer_closed(what);
  return system_error("Could not " + std::string(what), errno);
}

union DescriptorMessage {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

// Not ok if this process has no number left for another descriptor: then the kernel drops one that comes. `any`: an open one, to try by.
Status no_number_left(const Fd& any) {
  const Fd another(::fcntl(any.get(), F_DUPFD_CLOEXEC, 0));
  if (another || (errno != EMFILE && errno != ENFILE)) return {};
  return system_error("Could not receive a descriptor", errno, "Raise the limit of open files (ulimit -n).");
}

// Takes every descriptor that came, so that none leaks: the alignment of control messages leaves room for two.
Status take_descriptor(const msghdr& message, Fd& out) {
  int count = 0;
  Fd first;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
      int raw = -1;
      std::memcpy(&raw, reinterpret_cast<const char*>(part) + at, sizeof(raw));
      Fd taken(raw);
      if (count++ == 0) first = std::move(taken);
    }
  }
  if (count == 1 && (message.msg_flags & MSG_CTRUNC) == 0) {
    out = std::move(first);
    return {};
  }
  return {Code::kMismatch, "Expected one descriptor from the peer but " + std::to_string(count) +
                               " came: descriptor passing is filtered here, this process has no free descriptors "
                               "(ulimit -n), or the peer does not speak this protocol."};
}

}  // namespace

std::uint64_t network_namespace() {
  struct stat facts{};
  return ::stat("/proc/thread-self/ns/net", &facts) == 0 ? facts.st_ino : 0;
}

Status listen_abstract(const std::string& name, Fd& out) {
  Address address;
  if (Status status = make_address(name, address); !status.ok()) return status;
  Fd socket(::socket(AF_UNIX, kSocketFlags, 0));
  if (!socket) return system_error("Cannot make a Unix socket", errno);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.bytes) != 0) {
    return system_error("Cannot bind the abstract socket \"" + name + "\"", errno);
  }
  if (::listen(socket.get(), kBacklog) != 0) {
    return system_error("Cannot listen on the abstract socket \"" + name + "\"", errno);
  }
  out = std::move(socket);
  return {};
}

Status accept_connection(const Fd& listener, const Deadline& deadline, Fd& out) {
  for (;;) {
    Fd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      out = std::move(socket);
      return {};
    }
    if (errno == ECONNABORTED) continue;  // that one left; the next may be there
    if (Status status = wait_or_fail(listener, POLLIN, "accept a connection", deadline); !status.ok()) return status;
  }
}

Status connect_abstract(const std::string& name, const Deadline& deadline, Fd& out) {
  Address address;
  if (Status status = make_address(name, address); !status.ok()) return status;
  Fd socket(::socket(AF_UNIX, kSocketFlags, 0));
  if (!socket) return system_error("Cannot make a Unix socket", errno);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.bytes) != 0) {
    if (errno == ECONNREFUSED) {
      return {Code::kPeerLeft, "Nobody listens on the abstract socket \"" + name +
                                   "\": the peer runs in another network namespace (another host or container), has "
                                   "not started listening, or is gone."};
    }
    if (errno != EAGAIN && errno != EINTR) {
      return {Code::kUnreachable, "Cannot connect to the abstract socket \"" + name + "\": " + errno_text(errno)};
    }
    if (deadline.passed()) return timed_out("connect to the abstract socket \"" + name + "\"", deadline);
    // EAGAIN: the listener's backlog is full. The kernel tells only blocking callers when there is room (poll calls a
    // socket without a connection ready at once), so a short nap it is.
    const timespec nap = to_timespec(std::min(deadline.left(), Nanos(500'000)));
    ::ppoll(nullptr, 0, &nap, nullptr);
  }
  out = std::move(socket);
  return {};
}

Status peer_credentials(const Fd& socket, PeerCredentials& out) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return system_error("Cannot ask who is at the other end of a socket (SO_PEERCRED)", errno);
  }
  if (bytes != sizeof(credentials)) {
    return {Code::kSystem, "SO_PEERCRED returned " + std::to_string(bytes) + " bytes instead of " +
                               std::to_string(sizeof(credentials)) + "."};
  }
  out = {credentials.pid, credentials.uid};
  return {};
}

Status send_exact(const Fd& socket, const void* data, std::size_t bytes, const Deadline& deadline) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket.get(), at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (Status status = wait_or_fail(socket, POLLOUT, "send to a peer", deadline); !status.ok()) return status;
      continue;
    }
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return {};
}

Status recv_exact(const Fd& socket, void* data, std::size_t bytes, const Deadline& deadline) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket.get(), at, bytes, MSG_DONTWAIT);
    if (got == 0) return peer_closed("receive from a peer");
    if (got < 0) {
      if (Status status = wait_or_fail(socket, POLLIN, "receive from a peer", deadline); !status.ok()) return status;
      continue;
    }
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return {};
}

Status send_descriptor(const Fd& socket, const Fd& payload, const Deadline& deadline) {
  char mark = kDescriptorMark;
  iovec data{&mark, 1};
  DescriptorMessage control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = payload.get();
  std::memcpy(CMSG_DATA(part), &fd, sizeof(fd));
  while (::sendmsg(socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
    Status status = wait_or_fail(socket, POLLOUT, "pass a descriptor to a peer", deadline);
    if (!status.ok()) return status;
  }
  return {};
}

Status recv_descriptor(const Fd& socket, const Deadline& deadline, Fd& out) {
  for (;;) {
    char mark = 0;
    iovec data{&mark, 1};
    DescriptorMessage control{};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    const ssize_t got = ::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got == 0) return peer_closed("receive a descriptor");
    if (got == 1) {
      Fd taken;
      if (Status status = take_descriptor(message, taken); !status.ok()) {
        Status crowded = no_number_left(socket);
        return crowded.ok() ? std::move(status) : std::move(crowded);
      }
      if (mark != kDescriptorMark) return {Code::kMismatch, "A descriptor came with an unknown mark; it was closed."};
      out = std::move(taken);
      return {};
    }
    if (Status status = wait_or_fail(socket, POLLIN, "receive a descriptor", deadline); !status.ok()) return status;
  }
}

}  // namespace customccl
