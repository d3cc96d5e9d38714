#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "platform/clock.h"
#include "platform/fd.h"

// Unix sockets with abstract names (they live in the network namespace and vanish with their owner), for passing one
// descriptor to a peer on the same host. All waits have a deadline. Sockets made here do not block and close on exec.
//
// Codes: kTimeout when the deadline passed, kPeerDied when the other side closed, kPeerLeft when nobody listens, kUnreachable when
// the system lets this process not connect, kInvalidArgument for a bad name, kMismatch for bytes that are not what was agreed, kSystem for the rest.

namespace customccl {

// As the kernel knew the peer when it connected or listened; the pid is 0 when it lies in a foreign pid namespace.
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

// Which network namespace this thread is in, as a number that its kernel gives no other one that exists; 0: not known.
std::uint64_t network_namespace();

// `name` has no leading NUL; it is added here.
Status listen_abstract(const std::string& name, Fd& out);
Status accept_connection(const Fd& listener, const Deadline& deadline, Fd& out);
Status connect_abstract(const std::string& name, const Deadline& deadline, Fd& out);
Status peer_credentials(const Fd& socket, PeerCredentials& out);  // SO_PEERCRED

// Exactly `bytes` bytes, or an error. recv_exact also fails when the peer closes.
Status send_exact(const Fd& socket, const void* data, std::size_t bytes, const Deadline& deadline);
Status recv_exact(const Fd& socket, void* data, std::size_t bytes, const Deadline& deadline);

// One byte that carries one descriptor (SCM_RIGHTS).
Status send_descriptor(const Fd& socket, const Fd& payload, const Deadline& deadline);
Status recv_descriptor(const Fd& socket, const Deadline& deadline, Fd& out);

}  // namespace customccl
