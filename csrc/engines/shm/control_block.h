#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/call_record.h"
#include "kernels/copy.h"

// What one rank of one group shows to its peers. Lies in the rank's arena; only that rank writes it. (Elsewhere in
// the arena peers may write: two places of the staging, staging.h; outputs that the rank shows for that, shown_tensors.h.)
//
// Turns. Every collective is a number of turns, counted on over all collectives of the group. A rank publishes turn t when it
// has (1) written everything that peers shall read in turn t and (2) finished reading everything that peers published at turns
// below t. It writes for turn t only after it has seen every peer publish turn t-1.
//
// So what was published at turn t may be overwritten for turn t+2: the writer has then seen every peer publish t+1, which each
// did only after reading everything of turn t. Hence two lines, used alternately, and at least two staging slots; nothing is
// ever reset, there is no closing barrier, and a line holds turn t or t-2 when a reader looks for t. The argument does not
// depend on the number of ranks, nor on which operations the turns belong to.

namespace customccl::shm {

inline constexpr std::size_t kInlineBytes = 48;

// Flag, fingerprint and small data travel in one cache line. The record behind it is read only when fingerprints differ, and
// `recorded` says that it is there. It is written then, too: where not all are the same, every rank sees one that is not its own.
// (Where differences are no error, in personal.cpp, at once, after the flag, so that nobody waits for it.) It lives as long as its turn.
// 128 bytes: the adjacent-line prefetcher pulls lines in pairs, so two writers 64 bytes apart slow each other.
struct alignas(128) Line {
  // Four times the turn, two more where its rank asks what its data costs (reader_times.h), and one more where that was staged by
  // non-temporal stores (staging.h). Written last, with release order.
  std::atomic<std::uint64_t> flag{0};
  std::uint64_t signature = 0;
  std::byte payload[kInlineBytes]{};
  std::atomic<std::uint64_t> recorded{0};  // the turn of `record`; written last, with release order
  CallRecord record;

  bool reached(std::uint64_t turn) const { return flag.load(std::memory_order_acquire) >= 4 * turn; }
  // Of a turn that was reached.
  Store store() const { return (flag.load(std::memory_order_relaxed) & 1) != 0 ? Store::kStreaming : Store::kPlain; }
  bool asks() const { return (flag.load(std::memory_order_relaxed) & 2) != 0; }
  void publish(std::uint64_t turn, Store store, bool asks) {
    flag.store(4 * turn + (asks ? 2 : 0) + (store == Store::kStreaming ? 1 : 0), std::memory_order_release);
  }
};
static_assert(offsetof(Line, recorded) == 64 && sizeof(Line) == 128);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

// Why a rank gave the group up, for its peers' messages.
struct Notice {
  std::int32_t code = 0;
  std::int32_t culprit = -1;
  char text[1016]{};
};

struct ControlBlock {
  static constexpr std::uint32_t kClosed = 1;     // this rank reads nothing of its peers' any more
  static constexpr std::uint32_t kFailed = 2;     // notice is valid; written once
  static constexpr std::uint32_t kAbandoned = 4;  // given up within an operation: what it shows may be overwritten

  // 0, or one more than the arena offset of this rank's staging. Set before the turn that first uses it.
  alignas(128) std::atomic<std::uint64_t> staging{0};
  alignas(128) std::atomic<std::uint32_t> state{0};
  // Where this rank last began an operation: a hint for peers that wait. Written only when it changes.
  std::atomic<std::int32_t> processor{-1};
  // Whether this rank may read the memory of every peer's process, and will where they show something there (shown_tensors.h).
  std::atomic<std::uint32_t> reads_memory{0};
  Notice notice;
  // What an operation cost this rank, for a peer that has asked (reader_times.h).
  alignas(128) std::atomic<std::uint64_t> told{0};
  Line lines[2];

  // Behind the block: two rows (one per turn parity) of 2 * size byte counts, sent to and expected from each rank, for
  // operations whose counts differ per pair; then one mailbox offset per destination rank.
  static std::size_t bytes_for(int size) {
    return sizeof(ControlBlock) + sizeof(std::uint64_t) * static_cast<std::size_t>(size) * 5;
  }
  std::uint64_t* counts(std::uint64_t turn, int size) {
    return reinterpret_cast<std::uint64_t*>(this + 1) + (turn & 1) * 2 * static_cast<std::uint64_t>(size);
  }
  std::atomic<std::uint64_t>* mailboxes(int size) {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(counts(0, size) + 4 * static_cast<std::size_t>(size));
  }
};

}  // namespace customccl::shm
