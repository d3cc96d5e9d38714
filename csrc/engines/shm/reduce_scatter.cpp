#include "engines/shm/algorithm.h"
#include "engines/shm/reduce_pieces.h"

// reduce_scatter beyond a few bytes, n ranks, blocks of any sizes (one per rank), each cut into chunks of the same length:
//
//   phase k   copy in     chunk k of every block but the own one  -> own slot of this turn, one place per destination;
//                         nothing where the blocks are shown (shown_tensors.h)
//             reduce      chunk k-1 of the own block: own input and the n-1 staged copies, in rank order -> output
//
// Cost: chunks + 1 phases, one flag wait each; the own block is never staged.

namespace customccl::shm {

namespace {
namespace reduce_scatter {

[[gnu::hot]] void plan(const Context& context, Operation& op) {
  const std::size_t element = size_of(op.call->dtype);
  std::size_t longest = 0;
  for (const View& block : op.call->inputs) longest = std::max(longest, block.count);
  const auto peers = static_cast<std::size_t>(context.size() - 1);
  op.staged_bytes = longest * element * peers;
  const std::size_t limit = elements_within(context.staging.chunk_bytes(op.staged_bytes) / peers, element);
  op.chunk = even_chunk(longest, limit, kCacheLine / element);
  op.chunks = ceil_div(longest, op.chunk);
  op.last_phase = static_cast<std::uint32_t>(std::max<std::size_t>(op.chunks, 1));
  op.mutual = count_of(op.call->inputs) == (peers + 1) * longest;
  op.room = context.staging.room_for(peers * op.chunk * element, op.chunks, Readers::kOneEach,
                                     op.mutual ? Traffic::kBothWays : Traffic::kUneven);
}

// The place for `destination` in the slot of `owner`, in bytes: destinations in order, the owner left out.
std::size_t place(const Operation& op, int owner, int destination) {
  const int index = destination < owner ? destination : destination - 1;
  return static_cast<std::size_t>(index) * op.chunk * size_of(op.call->dtype);
}

void copy_in(const Context& context, const Operation& op, std::size_t index, std::byte* slot) {
  if (context.shown.shows_input()) return;
  for (int step = 1; step < context.size(); ++step) {
    const int destination = context.after(step);
    const View& block = op.call->inputs[static_cast<std::size_t>(destination)];
    const Range range = chunk_of(block.count, op.chunk, index);
    stage(slot + place(op, context.rank(), destination), *op.call, block, range.first, range.count, op.store);
  }
}

void reduce_own(const Context& context, const Operation& op, std::size_t index, std::uint64_t turn) {
  const auto rank = static_cast<std::size_t>(context.rank());
  const Range range = chunk_of(op.call->inputs[rank].count, op.chunk, index);
  const std::size_t first = count_of(op.call->inputs.first(rank)) + range.first;
  Reduction piece;
  for (int member = 0; member < context.size(); ++member) {
    if (member == context.rank()) continue;
    const auto& shown = context.shown.input(member);
    piece.take(member, shown ? *shown + first * size_of(op.call->dtype)
                             : context.staging.slot(member, turn - 1, op.room) + place(op, member, context.rank()));
  }
  piece.own = &op.call->inputs[rank];
  piece.own_first = range.first;
  piece.output = &op.call->outputs[0];
  piece.output_first = range.first;
  piece.count = range.count;
  reduce_piece(context, op, piece);
}

[[gnu::hot]] void run(const Context& context, Operation& op, std::uint32_t phase) {
  const std::uint64_t turn = op.first_turn + phase;
  if (phase < op.chunks) copy_in(context, op, phase, context.staging.own_slot(turn, op.room, op.store));
  if (phase >= 1 && phase <= op.chunks) reduce_own(context, op, phase - 1, turn);
}

}  // namespace reduce_scatter
}  // namespace

const Algorithm kReduceScatter{"reduce-scatter", reduce_scatter::plan, reduce_scatter::run, true, Shows::kInputs};

}  // namespace customccl::shm
