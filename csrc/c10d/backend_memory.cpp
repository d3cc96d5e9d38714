#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>

#include "c10d/backend.h"
#include "c10d/errors.h"
#include "c10d/python_lock.h"
#include "host/host_arena.h"
#include "host/tensor_memory.h"
#include "platform/log.h"
#include "platform/process.h"

// This process's shared memory: tensors in it, how much there is, and giving it back for a while.

namespace customccl::torch_shim {

at::Tensor CustomBackend::allocateTensor(long count, at::TensorOptions options) {
  TORCH_CHECK_VALUE(count >= 0, "customccl: cannot allocate a tensor of ", count, " elements");
  TORCH_CHECK_VALUE(options.device().is_cpu(), "customccl: shared-memory tensors are on the CPU, not on ",
                    options.device());
  std::size_t bytes = 0;
  TORCH_CHECK_VALUE(!__builtin_mul_overflow(static_cast<std::size_t>(count), options.dtype().itemsize(), &bytes),
                    "customccl: a tensor of ", count, " elements of ", options.dtype().itemsize(),
                    " bytes is larger than any memory");
  if (getSize() == 1) return at::empty({count}, options);  // for nobody else
  Block block;
  // DistributedDataParallel asks without its user's knowing, and nothing but speed is lost.
  if (const Status status = TensorMemory::of_process().allocate(bytes, block); !status.ok()) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
      log(LogLevel::kWarning, "tensors that the backend should allocate lie in ordinary memory: " + status.message());
    return at::empty({count}, options);
  }
  const auto give_back = [block, bytes, generation = fork_generation()](void*) {
    if (generation == fork_generation()) TensorMemory::of_process().release(block, bytes);
  };
  // A storage that grows or is emptied, as DDP's hooks and FSDP do with theirs, goes on in ordinary memory.
  const auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      c10::InefficientStdFunctionContext::makeDataPtr(block.data, give_back, c10::Device(c10::DeviceType::CPU)),
      c10::GetCPUAllocator(), true);
  return at::empty({0}, options).set_(c10::Storage(storage), 0, {count}, {1});
}

std::unordered_map<std::string, std::uint64_t> CustomBackend::getMemoryStats() {
  const HostArena* arena = HostArena::existing();
  return {{"arena_bytes_reserved", arena == nullptr ? 0 : arena->bytes()},
          {"arena_bytes_in_use", arena == nullptr ? 0 : arena->bytes_in_use()},
          {"arena_bytes_waiting", TensorMemory::of_process().waiting_bytes()},
          {"group_staging_bytes", group_->staging_bytes()},
          {"group_suspended", group_->suspended() ? 1 : 0}};
}

void CustomBackend::suspend() {
  const Status status = group_->suspend();
  stay_if_python_ends();
  if (!status.ok()) fail(status);
}

void CustomBackend::resume() {
  const Status status = group_->resume();
  stay_if_python_ends();
  if (status.ok()) return;
  // No room for the memory: nothing was sent, the group waits for another resume().
  if (status.code == Code::kSystem && group_->health().ok()) throw_status(status);
  fail(status);
}

}  // namespace customccl::torch_shim
