#include <mutex>
#include <unordered_map>

#include "capi/error.h"
#include "host/tensor_memory.h"
#include "platform/once_per_process.h"

// Memory that peers read and write where it lies.

namespace customccl::capi {

namespace {

struct Given {
  Block block;
  std::size_t bytes = 0;
};

// What this process has not given back yet, by its address.
struct Ledger {
  std::mutex mutex;
  std::unordered_map<const void*, Given> given;
};

Status allocate(void** memory, std::size_t bytes) {
  if (memory == nullptr) return invalid("customccl_mem_alloc got NULL for where it shall write the address");
  *memory = nullptr;
  Given fresh{{}, bytes};
  if (Status status = TensorMemory::of_process().allocate(bytes, fresh.block); !status.ok()) return status;
  try {
    auto& ledger = once_per_process<Ledger>();
    const std::lock_guard lock(ledger.mutex);
    ledger.given.emplace(fresh.block.data, fresh);
  } catch (...) {
    TensorMemory::of_process().release(fresh.block, bytes);
    throw;
  }
  *memory = fresh.block.data;
  return {};
}

Status release(const void* memory) {
  if (memory == nullptr) return {};
  Given given;
  {
    auto& ledger = once_per_process<Ledger>();
    const std::lock_guard lock(ledger.mutex);
    const auto found = ledger.given.find(memory);
    if (found == ledger.given.end()) {
      return invalid(
          "customccl_mem_free got an address that customccl_mem_alloc has not given to this process, or that was given "
          "back before");
    }
    given = found->second;
    ledger.given.erase(found);
  }
  TensorMemory::of_process().release(given.block, given.bytes);
  return {};
}

}  // namespace

}  // namespace customccl::capi

customccl_code customccl_mem_alloc(void** memory, size_t bytes) {
  return customccl::capi::guarded([&] { return customccl::capi::allocate(memory, bytes); });
}

customccl_code customccl_mem_free(void* memory) {
  return customccl::capi::guarded([&] { return customccl::capi::release(memory); });
}
