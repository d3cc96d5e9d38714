#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "engines/shm/algorithm.h"
#include "engines/shm/geometry.h"
#include "kernels/reduce.h"
#include "platform/cpu.h"

namespace customccl::shm {

// One run of elements to be reduced by this rank: every member's contribution and where the result goes.
struct Reduction {
  std::array<const std::byte*, kMaxMembers> staged;  // by member, or where it is shown; not this rank's if `own` is set
  Origin origin = Origin::kCache;                    // the farthest of those that were staged
  const View* own = nullptr;                         // this rank's input, where it was not staged
  std::size_t own_first = 0;
  const View* output = nullptr;  // nullptr: this rank wants no result
  std::size_t output_first = 0;
  // Where the result goes besides: staging, from which peers copy it, and outputs of theirs.
  std::array<std::byte*, kMaxMembers> others;
  std::size_t other_count = 0;
  std::size_t count = 0;

  void take(int member, Staged from) {
    staged[static_cast<std::size_t>(member)] = from.data;
    origin = std::max(origin, from.origin);
  }
  // `place` begins a cache line.
  void add_target(std::byte* place) { others[other_count++] = place; }
};

// Whether kernels store into what is others' to read: elsewhere a copy is the faster way of plain stores, too.
inline bool stores_in_place(const Operation& op) { return op.store == Store::kPlain && !strings_write_lines(); }

// Whether the whole piece can go to the kernel at once: nothing has to be packed, scaled or unpacked, and it has two places at most.
inline bool direct(const Operation& op, const Reduction& piece) {
  const bool input_ready = piece.own == nullptr || ready(*op.call, *piece.own);
  const bool wanted = piece.output != nullptr;
  const bool target_ready = wanted ? piece.output->contiguous() : stores_in_place(op);
  return input_ready && target_ready && (wanted ? 1 : 0) + piece.other_count <= 2;
}

// Block by block, so that what is read twice is still in the first-level cache.
void reduce_blocks(const Context& context, const Operation& op, const Reduction& piece);

inline void reduce_piece(const Context& context, const Operation& op, Reduction& piece) {
  if (piece.count == 0 || (piece.output == nullptr && piece.other_count == 0)) return;
  if (!direct(op, piece)) return reduce_blocks(context, op, piece);
  const Call& call = *op.call;
  const std::size_t element = size_of(call.dtype);
  if (piece.own != nullptr) {
    piece.staged[static_cast<std::size_t>(context.rank())] = piece.own->at(piece.own_first, element);
  }
  const bool wanted = piece.output != nullptr;
  std::byte* target = wanted ? piece.output->at(piece.output_first, element) : piece.others[0];
  const std::size_t next = wanted ? 0 : 1;
  std::byte* twin = next < piece.other_count ? piece.others[next] : nullptr;
  reduce(target, {piece.staged.data(), static_cast<std::size_t>(context.size())}, piece.count, call.dtype,
         call.reduce_op, {piece.origin, twin, op.store});
}

}  // namespace customccl::shm
