#pragma once

#include <cstddef>
#include <cstdint>

#include "engines/operation.h"
#include "engines/scratch.h"
#include "engines/shm/members.h"
#include "engines/shm/pair_counts.h"
#include "engines/shm/shown_tensors.h"
#include "engines/shm/staging.h"

namespace customccl::shm {

// What an algorithm works with: one group's shared memory, seen from one rank.
struct Context {
  Members& members;
  Staging& staging;
  Scratch& scratch;
  PairCounts& pairs;
  ShownTensors& shown;

  int rank() const { return members.rank(); }
  int size() const { return members.size(); }
  // The rank that comes `step` after this one, in a ring.
  int after(int step) const { return rank() + step < size() ? rank() + step : rank() + step - size(); }
};

// A collective as a sequence of phases 0..last. Phase 0 runs at once; phase k > 0 runs when every rank has published turn
// first_turn + k - 1; after each phase but the last, turn first_turn + k is published. In phase k a rank may read what peers
// wrote in phase k-1, and only that; what it writes for them, it writes for turn first_turn + k, or into outputs that they show, where
// nobody else reads or writes in this phase.
struct Algorithm {
  const char* name;
  // Sets last_phase, chunk and chunks, and what the staging and its store policy need to know (room, reads, staged_bytes, mutual);
  // touches no shared memory.
  void (*plan)(const Context&, Operation&);
  void (*run)(const Context&, Operation&, std::uint32_t phase);
  bool uses_staging;
  Shows shows;  // what is read where it lies, if that is in the rank's arena
  // Where a member has staged `op.reads` bytes for this rank in the turn that phase op.phase waits for; nullptr: it has none for it.
  const std::byte* (*read_at)(const Context&, const Operation& op, int member) = nullptr;
  // Between the publication of the first turn and the wait for it: what needs no peer. Of those that use staging.
  void (*meanwhile)(const Context&, Operation&) = nullptr;
};

extern const Algorithm kBarrier;          // one turn, no data
extern const Algorithm kOneShotReduce;    // small all_reduce and reduce: everybody stages everything
extern const Algorithm kInlineReduce;     // the same, also for reduce_scatter, inside the flag's cache line
extern const Algorithm kTwoShotReduce;    // large all_reduce and reduce: one owner per slice
extern const Algorithm kReduceScatter;    // reduce_scatter: each rank its own block
extern const Algorithm kMulticast;        // broadcast, all_gather: all read the same
extern const Algorithm kInlineMulticast;  // the same, inside the flag's cache line
extern const Algorithm kPersonal;         // all_to_all, gather, scatter: a part for each

[[gnu::hot]] const Algorithm& select(const Context& context, const Call& call);

}  // namespace customccl::shm
