#pragma once

#include <cstddef>
#include <cstdint>

#include "base/call.h"
#include "kernels/copy.h"

namespace customccl {

namespace shm {
struct Algorithm;

// What a rank stages in one turn, and how its place is found (staging.h).
struct Room {
  std::size_t bytes = 0;
  bool exchanged = false;  // two ranks write where they have read
  bool apart = false;      // each peer reads a part of its own
};
}  // namespace shm

// A call on its way through an engine: a resumable state machine, driven by whoever has time. Plain data; lives on the stack of its
// caller until the call needs a Task, then in that.
struct Operation {
  const Call* call = nullptr;
  std::uint64_t sequence = 0;  // number of this collective in its group, from 1; the same on every rank

  // The shared-memory engine's state.
  const shm::Algorithm* algorithm = nullptr;
  std::uint64_t first_turn = 0;  // published at the end of phase 0
  std::uint32_t phase = 0;       // the next phase to run
  std::uint32_t last_phase = 0;
  std::uint32_t cursor = 0;  // so many peers have reached the turn that `phase` waits for
  std::size_t chunk = 0;     // elements per chunk (of the whole tensor, or per block)
  std::size_t chunks = 0;
  shm::Room room{};
  std::size_t reads = 0;  // so many bytes of what a member has staged, as far as is known before calls are compared
  std::size_t staged_bytes = 0;        // what this rank stages in all, for the store policy
  bool mutual = true;                  // all ranks stage as much, and read as much of each other
  Store store = Store::kPlain;         // into staging
  Store output_store = Store::kPlain;  // into outputs that are only moved, not reduced
  Origin input_origin = Origin::kCache;
  bool reads_shown = false;  // some rank shows its tensors: one phase more, in which nothing is done
  bool own_moved = false;    // what this rank has for itself has gone to its output
  bool measured = false;     // its time is taken, for the store policy, this rank's or a peer's
  bool asks = false;         // what its data costs the others (reader_times.h)
  bool tells = false;        // a peer what that one's costs this rank
};

}  // namespace customccl
