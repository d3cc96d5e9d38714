#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "base/status.h"
#include "platform/clock.h"
#include "platform/fd.h"

// Unix sockets with abstract names (they live in the network namespace and vanish with their owner), for passing one
// descriptor to a peer on the same host. All waits have a deadline.

namespace customccl {

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

// `name` has no leading NUL; it is added here.
Status listen_abstract(const std::string& name, Fd& out);
Status connect_abstract(const std::string& name, const Deadline& deadline, Fd& out);
Status peer_credentials(const Fd& socket, PeerCredentials& out);  // SO_PEERCRED

// Exactly `bytes` bytes, or an error. recv_exact also fails when the peer closes.
Status send_exact(const Fd& socket, const void* data, std::size_t bytes, const Deadline& deadline);
Status recv_exact(const Fd& socket, void* data, std::size_t bytes, const Deadline& deadline);

// One byte that carries one descriptor (SCM_RIGHTS).
Status send_descriptor(const Fd& socket, const Fd& payload, const Deadline& deadline);
Status recv_descriptor(const Fd& socket, const Deadline& deadline, Fd& out);

}  // namespace customccl
