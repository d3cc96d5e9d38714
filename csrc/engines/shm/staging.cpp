#include "engines/shm/staging.h"

namespace customccl::shm {

Status Staging::ensure_own() {
  std::byte*& base = bases_[static_cast<std::size_t>(members_.rank())];
  if (base != nullptr) return {};
  Block block;
  if (Status status = members_.allocate(kSlots * slot_bytes(), block); !status.ok()) return status;
  base = block.data;
  members_.own().staging.store(block.offset + 1, std::memory_order_release);
  return {};
}

Status Staging::ensure_all() {
  if (complete_) return {};
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.rank()) continue;
    const std::uint64_t offset = members_.of(member).staging.load(std::memory_order_acquire);
    std::byte* base = offset == 0 ? nullptr : members_.address(member, offset - 1, kSlots * slot_bytes());
    if (base == nullptr) return {Code::kSystem, members_.describe(member) + " shows no valid staging memory"};
    bases_[static_cast<std::size_t>(member)] = base;
  }
  complete_ = true;
  return {};
}

}  // namespace customccl::shm
