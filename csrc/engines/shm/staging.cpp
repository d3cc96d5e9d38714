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

// Broadcast and gather, as times of one chunk. From 32 KiB on a quarter, 16 to 64 KiB, that moves on: Zen 4, broadcast near and far 32 KiB
// 0.88 and 0.89, 64 KiB 0.5 and 0.82, 256 KiB 0.68 and 0.73, 512 KiB 0.72 and 0.71, gather of 1 MiB 0.75 and 0.84 (pieces that lie at one
// place 1.5 near). From 256 KiB on 64 KiB, at one place: across a mesh broadcast of 256 KiB 0.83, gather of 1 MiB 0.76; Zen 5,
// near and far, broadcast of 512 KiB 0.7 and 0.75, gather of 1 MiB 0.85 and 0.8. The root of a scatter has most to do and waits for
// nobody: 1.2 near (Zen 4). Who shares a processor waits longer for its turn than a piece takes: broadcast of 512 KiB among 4 ranks on
// two processors 1.2, among 8 1.8.
std::size_t Staging::piece_bytes(std::size_t bytes) const {
  const std::size_t least = pieces_stay() ? kPiece : kLeastPiece;
  const bool in_pieces = members_.enough_processors() && bytes >= (pieces_stay() ? 4 : 2) * least;
  return in_pieces ? std::clamp(round_up(bytes / 4, kStep), least, kPiece) : slot_bytes();
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
