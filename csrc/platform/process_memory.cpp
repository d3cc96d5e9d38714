#include "platform/process_memory.h"

#include <sys/uio.h>

#include <cerrno>

#include "platform/settings.h"

namespace customccl {

int read_process_memory(int thread, std::byte* to, std::uint64_t address, std::size_t bytes) {
  static const bool refused = disabled("process_vm_readv");
  if (refused) return EPERM;
  while (bytes != 0) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(address),
                       bytes};  // NOLINT(performance-no-int-to-ptr): another process's
    const ssize_t got = ::process_vm_readv(thread, &local, 1, &remote, 1, 0);
    if (got <= 0) return got == 0 ? EFAULT : errno;
    to += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace customccl
