#include "engines/shm/staging.h"

namespace customccl::shm {

Status Staging::ensure_own() {
  std::byte*& base = bases_[static_cast<std::size_t>(members_.rank())];
  if (base != nullptr) return {};
  if (Status status = members_.allocate(kSlots * slot_bytes(), own_); !status.ok()) return status;
  base = own_.data;
  members_.own().staging.store(own_.offset + 1, std::memory_order_release);
  return {};
}

void Staging::give_pages() {
  if (own_.data == nullptr || bare_) return;
  members_.give_pages(own_);
  bare_ = true;
}

Status Staging::take_pages() {
  if (!bare_) return {};
  if (Status status = members_.take_pages(own_); !status.ok()) return status;
  bare_ = false;
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
