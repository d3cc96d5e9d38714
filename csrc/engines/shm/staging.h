#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engines/operation.h"
#include "engines/shm/geometry.h"
#include "engines/shm/members.h"
#include "engines/shm/staged.h"
#include "platform/cpu.h"

namespace customccl::shm {

// Who of the ranks stages and who reads: all do both, all as much or not; or one side only writes while the other only reads, so that
// pieces have both work at once: from one rank to all, or from each to one.
enum class Traffic : std::uint8_t { kBothWays, kUneven, kFromOne, kToOne };
// Of what a rank stages: everybody reads all of it, or each peer a part of its own.
enum class Readers : std::uint8_t { kAll, kOneEach };

// Every rank's staging: kSlots slots in its own arena into which it copies what peers shall read. Slot of turn t: t mod kSlots;
// at least two are needed (control_block.h). Made when a group first needs it.
//
// Where in its slot data lies decides what it costs between near cores, more than its amount. A line that the reader's second-level
// cache still holds is the dearest to write again; one that the first-level caches of both hold is cheap, and so is one that has gone to
// the shared cache. So by plain stores
//   up to a page    alternates between two places, at the starts of two slots: 4 KiB 480 ns, in 16 to 1,000 places 620, and 1 us where the
//                   memory has meanwhile left the caches
//   more            moves on from turn to turn, through places that become more with the turns, as a place that was never used is
//                   cold, too, and memory: 16 KiB 870 ns, in few places 2.4 us
// with a page between them up to 64 KiB, as a processor that reads on and on has the lines behind come as well, to the cost of their writer:
// all_reduce of 16 KiB 1.4x, 32 KiB 1.1x. (With 8 KiB or less the places would be too few, and those of 256 KiB too: 24 us instead
// of 14.) Non-temporal stores have to throw a line out of the reader's caches: what is written by them always moves on. The
// flag of the turn says which it was, as ranks need not agree.
//
// What each peer reads a part of takes fewer places in large groups: with all of them a rank walks over more pages than its processor
// keeps the addresses of. (16 ranks: reduce_scatter of 64 KiB 0.78 of the time, 256 KiB 0.85, all_to_all 0.73 and 0.87, all_reduce of 64 KiB
// 0.93; huge pages, 0.96 to 1.0, do not do it. What all read wants many: all_gather of 256 KiB 1.7, 1 MiB 1.3.)
//
// Data that does not fit into one slot is better kept where it is: chunks of half a slot, always at its start, so that the staging of
// all turns stays in the second-level cache beside the tensors that pass through (all_reduce of 4 MiB 1.4 to 1.6x, all_gather 1.7x
// faster than whole slots; docs/measured-decisions.md).
//
// That turns t and t+1 never share memory (control_block.h): t mod kSlots and t mod 2 are of one parity, so neighbours always lie in
// different slots.
//
// The cheapest line to write is one that this core has read last: it is its own by then. So two ranks that both stage as much in
// each turn write, by plain stores, where they have just read: to one more place per parity, behind the slots of both ranks. What
// counts are the turns of operations that stage, the uses: with those of barriers and of what fits into flag lines, a rank would write
// where it has written before.
//
//   use       rank 0 writes to      rank 1 writes to
//   0, 1      its own staging       its own staging         use mod 2 says to which of the two places
//   2, 3      that of rank 1        that of rank 0
//
// Both ranks number the uses alike, as they do the turns: which operation stages, and in how many turns, is what they have to agree in.
// In one use the ranks write to different staging, whoever writes there at all. And the place for use u, in turn t, was last written, or
// read, for use u-2, so in turn t-2 or earlier, by either rank: with that both have finished when they publish t-1, and a rank writes
// for t when it has seen that of the other. Nothing else is ever written there, so it does not matter that one rank may take non-temporal
// stores, or have called another operation. Before a rank has seen where its peer's staging lies, in the first operation that stages,
// it takes non-temporal stores.
// A peer that is slow to leave a group may still write: the memory lives until it has (host/limbo.h).
// (all_reduce of 4 KiB 0.68 of the time, 64 KiB 0.87, all_gather and all_to_all of 4 to 128 KiB 0.9, all_reduce of 64 and 128 KiB between
// far cores 0.82. From 16 MiB on 1.0 to 1.05, below 2 KiB 1.0 to 1.1, and where one rank has three times as much 2.0. On Zen 5, where strings
// write what is more than a page: 4 to 16 KiB near 0.79 to 0.98, far 0.69 to 0.97, 32 to 512 KiB near 0.85 to 1.05, far 0.64 to 0.78.)
class Staging {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kStep = 4096;
  static constexpr std::size_t kPiece = 64 << 10;
  static constexpr std::size_t kLeastPiece = 16 << 10;
  static constexpr std::size_t kLongPiece = 128 << 10;
  static constexpr std::size_t kHalf = 256 << 10;
  static constexpr std::size_t kLongPiecesAbove = 8 << 20;
  static constexpr std::size_t kShortExchange = 1 << 10;
  static constexpr std::size_t kLongExchange = 8 << 20;
  static constexpr std::size_t kGapAbove = 8 << 10;
  static constexpr std::size_t kGapUpTo = 64 << 10;
  static constexpr std::size_t kFewRanks = 4;  // groups of so many use all places: 0.97 to 1.05 of the time with fewer
  static constexpr std::size_t kFirstPlaces = 32;
  static constexpr std::uint64_t kTurnsPerPlace = 8;

  explicit Staging(Members& members)
      : members_(members),
        exchanges_(members.size() == 2 && readers_own_lines()),
        regions_(static_cast<std::size_t>(members.size())) {}

  // Before publishing the turn that first uses staging: makes this rank's and shows it.
  Status ensure_own() { return own_.data != nullptr ? Status{} : make_own(); }
  // After the first turn of an operation that uses staging: finds everybody's.
  Status ensure_all() { return complete_ ? Status{} : find_all(); }

  // An operation that stages begins with this turn; it is over, and took so many.
  void begin(std::uint64_t first_turn) { unused_ = first_turn - uses_; }
  void end(std::uint64_t turns) { uses_ += turns; }

  bool complete() const { return complete_; }
  // Whether it is known where this rank writes by plain stores.
  bool takes_plain_stores() const { return complete_ || !exchanges_; }
  // Whether any was mapped since this was last asked: such an operation's time says nothing about others.
  bool take_mapped() { return std::exchange(mapped_, false); }

  // Gives the pages of this rank's back, and takes new ones; peers find it where it was.
  void give_pages();
  Status take_pages();
  // What this rank's holds now.
  std::size_t bytes() const { return bare_ ? 0 : own_.bytes; }

  std::size_t slot_bytes() const { return members_.slot_bytes(); }
  // How much a rank that stages `bytes` in all stages per turn at most. Only of what one rank has for all, and of more than a slot, does
  // it depend on the kind of store.
  std::size_t chunk_bytes(std::size_t bytes, Traffic traffic = Traffic::kBothWays,
                          Store store = Store::kStreaming) const {
    if (in_pieces(traffic)) return piece_bytes(bytes, traffic, store);
    // A slot is more than two ranks exchange.
    return exchanges_ && traffic == Traffic::kBothWays && bytes > exchange_bytes() ? exchange_bytes()
                                                                                   : whole_chunk(bytes);
  }
  // For chunks of so many bytes: of several chunks all at the start of their slots, but for pieces that move on and what is exchanged.
  Room room_for(std::size_t chunk, std::size_t chunks, Readers readers, Traffic traffic = Traffic::kBothWays) const {
    const bool exchanged = exchanges_ && traffic == Traffic::kBothWays && worth_exchanging(chunk, chunks);
    const bool short_piece = chunk <= (traffic == Traffic::kToOne ? kPiece : kLongPiece);
    const bool moves_on = in_pieces(traffic) && short_piece && !pieces_stay();
    const bool apart = readers == Readers::kOneEach && regions_.size() > kFewRanks;
    return {chunks > 1 && !moves_on && !exchanged ? slot_bytes() : chunk, exchanged, apart};
  }
  // Where an operation that uses such a room per turn stages at `turn`, by stores of a kind.
  std::byte* own_slot(std::uint64_t turn, const Room& room, Store store) {
    return slot(members_.rank(), turn, room, store);
  }
  // Has the lines come where that would be by plain stores, if it is not exchanged: peers' caches hold them.
  void fetch_own_slot(std::uint64_t turn, const Room& room) const {
    if (room.exchanged) return;
    const Region& region = regions_[static_cast<std::size_t>(members_.rank())];
    const auto [index, offset] = place_of(turn, room, Store::kPlain);
    const std::byte* begin = region.base + index * slot_bytes() + offset;
    for (const std::byte* line = begin; line < begin + room.bytes; line += kCacheLine) fetch_to_write(line);
  }
  // Where that is of a member whose turn has been reached.
  Staged slot(int member, std::uint64_t turn, const Room& room) {
    const Store store = members_.line(member, turn).store();
    return {slot(member, turn, room, store), origin_of(store, Origin::kPeer)};
  }

 private:
  Status make_own();
  Status find_all();
  bool in_pieces(Traffic traffic) const {
    return (traffic == Traffic::kFromOne || traffic == Traffic::kToOne) && members_.enough_processors();
  }
  std::size_t whole_chunk(std::size_t bytes) const { return bytes > slot_bytes() ? slot_bytes() / 2 : slot_bytes(); }
  std::size_t piece_bytes(std::size_t bytes, Traffic traffic, Store store) const;
  // Not measured otherwise there.
  static bool pieces_stay() { return cores_on_mesh() || strings_write_lines(); }
  // Of each of the two places behind the slots.
  std::size_t exchange_bytes() const { return slot_bytes() / 2; }
  bool worth_exchanging(std::size_t chunk, std::size_t chunks) const {
    return chunk > kShortExchange && chunk <= exchange_bytes() && chunk * chunks <= kLongExchange;
  }
  std::size_t region_bytes() const { return kSlots * slot_bytes() + (exchanges_ ? 2 * exchange_bytes() : 0); }
  struct Place { std::size_t slot, offset; };
  Place place_of(std::uint64_t turn, const Room& room, Store store) const {
    const bool stays = room.bytes <= kStep && store == Store::kPlain;
    return {turn % (stays ? 2 : kSlots), stays ? 0 : offset_of(turn, room)};
  }
  std::byte* slot(int member, std::uint64_t turn, const Room& room, Store store) {
    if (room.exchanged && store == Store::kPlain) [[unlikely]]
      return exchanged_slot(member, turn, room.bytes);
    const auto [index, offset] = place_of(turn, room, store);
    Region& region = regions_[static_cast<std::size_t>(member)];
    if (offset + room.bytes > region.mapped[index]) map_more(member, index, offset + room.bytes);
    return region.base + index * slot_bytes() + offset;
  }
  [[gnu::hot, gnu::noinline]] std::byte* exchanged_slot(int member, std::uint64_t turn, std::size_t bytes);
  std::size_t offset_of(std::uint64_t turn, const Room& room) const {
    const std::size_t gap = room.bytes > kGapAbove && room.bytes <= kGapUpTo ? kStep : 0;
    const std::size_t step = round_up(std::max(room.bytes, std::size_t{1}), kStep) + gap;
    // All ranks' places together are no more than those of two ranks.
    const std::size_t span = room.apart ? 2 * slot_bytes() / regions_.size() : slot_bytes();
    // A power of two, so that turns go through all places while their number stays.
    const std::size_t places =
        std::min(span / step, std::bit_floor(std::max<std::size_t>(kFirstPlaces, turn / kTurnsPerPlace)));
    return places < 2 ? 0 : turn / kSlots % places * step;
  }

  Members& members_;
  bool exchanges_;
  std::uint64_t uses_ = 0;    // turns of operations that staged and are over
  std::uint64_t unused_ = 0;  // other turns before those of the present one
  // Of each slot, and of the two places behind them, what is mapped already; it doubles, so that a group of few operations pays for few
  // pages and no operation pays for a page fault on each of its pages.
  struct Region {
    std::byte* base = nullptr;
    std::array<std::size_t, kSlots + 2> mapped{};
  };
  static constexpr std::size_t kFirstMapped = 64 << 10;
  // Of a slot, or a place behind them, in its region.
  std::size_t begin_of(std::size_t index) const {
    return index <= kSlots ? index * slot_bytes() : kSlots * slot_bytes() + exchange_bytes();
  }
  void map_more(int owner, std::size_t index, std::size_t needed);

  std::vector<Region> regions_;
  Block own_;
  bool bare_ = false;  // own_ has no pages
  bool complete_ = false;
  bool mapped_ = false;
};

}  // namespace customccl::shm
