#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engines/shm/members.h"

namespace customccl::shm {

// Every rank's staging: kSlots slots in its own arena into which it copies what peers shall read. Slot of turn t: t mod kSlots;
// at least two are needed (control_block.h). Made when a group first needs it.
//
// More slots, and moving small data on within its slot from turn to turn, spread the stores over more memory than the readers'
// second-level caches hold: a store into a line that a reader still caches has to take it back first, which is the most
// expensive thing here (64 KiB: 7 us instead of 2). A place that was never used is cold, too, and memory: so the places of a slot
// become more with the turns, and data of few lines, whose stores hardly wait, stays with the first ones. (4 KiB, near cores,
// after thousands of calls: 410 ns instead of 780, 2 KiB 320 instead of 430; a process's first 250 calls: no difference, but with all
// places at once 2 KiB 706 instead of 450.)
//
// Data that does not fit into one slot is better kept where it is: chunks of half a slot, always at its start, so that the staging of
// all turns stays in the second-level cache beside the tensors that pass through (all_reduce of 4 MiB 1.4 to 1.6x, all_gather 1.7x
// faster than whole slots; docs/measured-decisions.md).
class Staging {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kStep = 4096;
  static constexpr std::size_t kFewLines = 1024;  // bytes
  static constexpr std::size_t kFirstPlaces = 32;
  static constexpr std::uint64_t kTurnsPerPlace = 16;

  explicit Staging(Members& members) : members_(members), regions_(static_cast<std::size_t>(members.size())) {}

  // Before publishing the turn that first uses staging: makes this rank's and shows it.
  Status ensure_own();
  // After the first turn of an operation that uses staging: finds everybody's.
  Status ensure_all();

  bool complete() const { return complete_; }

  // Gives the pages of this rank's back, and takes new ones; peers find it where it was.
  void give_pages();
  Status take_pages();
  // What this rank's holds now.
  std::size_t bytes() const { return bare_ ? 0 : own_.bytes; }

  std::size_t slot_bytes() const { return members_.slot_bytes(); }
  // How much a rank that stages `bytes` in all stages per turn at most.
  std::size_t chunk_bytes(std::size_t bytes) const { return bytes <= slot_bytes() ? slot_bytes() : slot_bytes() / 2; }
  // Where chunks of so many bytes lie (the `room` of slot()): of several chunks all at the start of their slots.
  std::size_t room_for(std::size_t chunk, std::size_t chunks) const { return chunks > 1 ? slot_bytes() : chunk; }
  // Where an operation that uses `room` bytes per turn stages at `turn`. Every rank computes the same place.
  std::byte* own_slot(std::uint64_t turn, std::size_t room) { return slot(members_.rank(), turn, room); }
  std::byte* slot(int member, std::uint64_t turn, std::size_t room) {
    const std::size_t step = (room + kStep - 1) / kStep * kStep;
    const std::size_t fit = step == 0 ? 1 : slot_bytes() / step;
    const std::size_t opened = std::max<std::size_t>(kFirstPlaces, room > kFewLines ? turn / kTurnsPerPlace : 0);
    const std::size_t places = std::min(fit, opened);
    const std::size_t offset = places < 2 ? 0 : turn / kSlots % places * step;
    const std::size_t index = turn % kSlots;
    if (offset + room > regions_[static_cast<std::size_t>(member)].mapped[index])
      map_more(member, index, offset + room);
    return regions_[static_cast<std::size_t>(member)].base + index * slot_bytes() + offset;
  }

 private:
  Members& members_;
  // Of each slot what is mapped already; it doubles, so that a group of few operations pays for few pages and no operation
  // pays for a page fault on each of its pages.
  struct Region {
    std::byte* base = nullptr;
    std::array<std::size_t, kSlots> mapped{};
  };
  static constexpr std::size_t kFirstMapped = 64 << 10;
  void map_more(int member, std::size_t index, std::size_t needed);

  std::vector<Region> regions_;
  Block own_;
  bool bare_ = false;  // own_ has no pages
  bool complete_ = false;
};

}  // namespace customccl::shm
