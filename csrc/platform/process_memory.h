#pragma once

#include <cstddef>
#include <cstdint>

namespace customccl {

// Copies `bytes` at `address` in the memory of the process of `thread` (process_vm_readv(2)). Not 0: the errno of a system that
// refuses it (EPERM), of a thread that has ended (ESRCH), of memory that is not all there (EFAULT).
int read_process_memory(int thread, std::byte* to, std::uint64_t address, std::size_t bytes);

}  // namespace customccl
