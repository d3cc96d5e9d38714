#include "engines/shm/staging.h"

#include <algorithm>

#include "platform/memory_file.h"

namespace customccl::shm {

Status Staging::make_own() {
  if (Status status = members_.allocate(region_bytes(), own_); !status.ok()) return status;
  regions_[static_cast<std::size_t>(members_.rank())].base = own_.data;
  members_.own().staging.store(own_.offset + 1, std::memory_order_release);
  return {};
}

// Measured against whole chunks, near and far cores.
//   Zen 4        from one rank, from 32 KiB on a quarter, 16 to 64 KiB, that moves on: broadcast of 32 KiB 0.55 and 0.85, 64 KiB 0.79 and
//                0.81, 256 KiB 0.66 and 0.72, 512 KiB 0.70 and 0.72. What is beyond a slot in 128 KiB: broadcast of 16 MiB 0.66 and 0.99,
//                64 MiB 0.64 and 1.03, 2 and 4 MiB 0.9 to 1.0. In 64 KiB instead of 128: near 1 to 8 MiB 0.93, and 0.58 in hours in which
//                128 KiB take 1.6 times as long, 16 and 64 MiB 1.1; far 1.07 to 1.16. So that follows the kind of store
//                to one rank, halves, that move on up to 64 KiB and else stay: gather of 1 MiB 0.74 and 0.84 in quarters that move on (1.5
//                near where they stay), and of that time in halves 0.67 and 0.83; 128 KiB 0.90 and 1.0, 512 KiB 0.86 and 0.81. Broadcast in
//                halves 1.02 to 1.17. What is beyond a slot 1.0 in any pieces
//   across a mesh, Zen 5   from 256 KiB on 64 KiB, at one place: broadcast of 256 KiB 0.83 (mesh), of 512 KiB 0.7 and 0.75 (Zen 5), gather of
//                1 MiB 0.76 and 0.85
// The root of a scatter has most to do and waits for nobody: 1.2 near (Zen 4). Who shares a processor waits longer for its turn than a
// piece takes: broadcast of 512 KiB among 4 ranks on two processors 1.2, among 8 1.8.
std::size_t Staging::piece_bytes(std::size_t bytes, Traffic traffic, Store store) const {
  const bool stay = pieces_stay();
  if (bytes > slot_bytes()) {
    if (traffic != Traffic::kFromOne || stay) return whole_chunk(bytes);
    const bool in_caches = store == Store::kPlain && bytes <= kLongPiecesAbove;
    return std::min(in_caches ? kPiece : kLongPiece, whole_chunk(bytes));
  }
  const std::size_t least = stay ? kPiece : kLeastPiece;
  if (bytes < (stay ? 4 : 2) * least) return whole_chunk(bytes);
  const bool halves = traffic == Traffic::kToOne && !stay;
  return std::clamp(round_up(bytes / (halves ? 2 : 4), kStep), least, halves ? kHalf : kPiece);
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
    std::byte* base = offset == 0 ? nullptr : members_.address(member, offset - 1, region_bytes());
    if (base == nullptr) return {Code::kSystem, members_.describe(member) + " shows no valid staging memory"};
    regions_[static_cast<std::size_t>(member)].base = base;
  }
  complete_ = true;
  return {};
}

std::byte* Staging::exchanged_slot(int member, std::uint64_t turn, std::size_t bytes) {
  const std::uint64_t use = turn - unused_;
  const std::size_t index = kSlots + use % 2;
  const int owner = member ^ static_cast<int>(use >> 1 & 1);
  const Region& region = regions_[static_cast<std::size_t>(owner)];
  if (bytes > region.mapped[index]) [[unlikely]]
    map_more(owner, index, bytes);
  return region.base + begin_of(index);
}

void Staging::map_more(int owner, std::size_t index, std::size_t needed) {
  mapped_ = true;
  Region& region = regions_[static_cast<std::size_t>(owner)];
  std::size_t& mapped = region.mapped[index];
  const bool exchanged = index >= kSlots;
  const std::size_t most = exchanged ? exchange_bytes() : slot_bytes();
  const std::size_t wanted = std::min(most, std::max({needed, 2 * mapped, kFirstMapped}));
  map_pages(region.base + begin_of(index) + mapped, wanted - mapped,
            exchanged || owner == members_.rank() ? Access::kWrite : Access::kRead);
  mapped = wanted;
}

}  // namespace customccl::shm
