#include "engines/shm/staging.h"

#include <algorithm>

#include "platform/memory_file.h"

namespace customccl::shm {

Status Staging::make_own() {
  if (Status status = members_.allocate(kSlots * slot_bytes(), own_); !status.ok()) return status;
  regions_[static_cast<std::size_t>(members_.rank())].base = own_.data;
  members_.own().staging.store(own_.offset + 1, std::memory_order_release);
  return {};
}

void Staging::give_pages() {
  if (own_.data == nullptr || bare_) return;
  members_.give_pages(own_);
  for (Region& region : regions_) region.mapped.fill(0);
  bare_ = true;
}

Status Staging::take_pages() {
  if (!bare_) return {};
  if (Status status = members_.take_pages(own_); !status.ok()) return status;
  bare_ = false;
  return {};
}

Status Staging::find_all() {
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.rank()) continue;
    const std::uint64_t offset = members_.of(member).staging.load(std::memory_order_acquire);
    std::byte* base = offset == 0 ? nullptr : members_.address(member, offset - 1, kSlots * slot_bytes());
    if (base == nullptr) return {Code::kSystem, members_.describe(member) + " shows no valid staging memory"};
    regions_[static_cast<std::size_t>(member)].base = base;
  }
  complete_ = true;
  return {};
}

void Staging::map_more(int member, std::size_t index, std::size_t needed) {
  mapped_ = true;
  Region& region = regions_[static_cast<std::size_t>(member)];
  std::size_t& mapped = region.mapped[index];
  const std::size_t wanted = std::min(slot_bytes(), std::max({needed, 2 * mapped, kFirstMapped}));
  map_pages(region.base + index * slot_bytes() + mapped, wanted - mapped,
            member == members_.rank() ? Access::kWrite : Access::kRead);
  mapped = wanted;
}

}  // namespace customccl::shm
