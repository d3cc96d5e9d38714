#include "engines/shm/algorithm.h"
#include "engines/shm/reduce_pieces.h"

// Large all_reduce and reduce, two shots, n ranks. The tensor is cut into chunks, each chunk into n slices, one owner each.
//
//   phase k   copy in     chunk k      every slice but the own one             -> own slot of this turn, place of the slice
//             reduce      chunk k-1    own slice: own input and the n-1 staged copies, in rank order 0..n-1
//                                      -> own output, and own slot of this turn, place of the own slice (free: not copied in)
//             copy out    chunk k-2    every other owner's finished slice      -> own output (reduce: root only)
//
// One flag wait per phase, and what is read was published in the phase before: the turn rule of control_block.h holds as it is.
// Cost: chunks + 2 phases; each rank touches 3S + 2S(n-1)/n bytes of a tensor of S, staging stays in the caches.
// Where a rank shows its tensor (shown_tensors.h) it copies nothing in, and the finished slice is read where it lies. In place,
// a rank overwrites in phase k the slices that their owners have read in phase k-1, and its own, which it alone reads as input.
// Where an output may be written (shown_tensors.h) every owner writes its slice there, too, and nobody copies it out. In place that
// changes an input, but of that slice the owner alone reads what is shown, and what is staged was copied in phase k-1. Slices do not
// overlap, so each element of an output has one writer; its rank reads it after the closing turn.
// The same bits on every rank and for every chunk size: each element is summed in rank order by exactly one owner.
// Two-shot reduce-scatter + all-gather is the textbook algorithm (Rabenseifner); the pipelining over one flag per rank is ours.

namespace customccl::shm {

namespace {
namespace two_shot_reduce {

std::size_t slice_elements(std::size_t chunk_count, const Context& context, std::size_t element) {
  return round_up(ceil_div(chunk_count, static_cast<std::size_t>(context.size())), kCacheLine / element);
}

// What is copied in of the only chunk and what is finished of it are staged in different turns. Two ranks, which write where they have
// read, take the same place for both: else one would always write what it has written before (staging.h).
bool folded(const Context& context, const Operation& op) { return op.chunks == 1 && context.size() == 2; }

// Into chunks of at most so many bytes.
void cut(const Context& context, Operation& op, std::size_t bytes) {
  const std::size_t element = size_of(op.call->dtype);
  const std::size_t count = op.call->inputs[0].count;
  const auto size = static_cast<std::size_t>(context.size());
  const std::size_t slice = elements_within(bytes / size, element);
  op.chunk = even_chunk(count, slice * size, size * kCacheLine / element);
  op.chunks = ceil_div(count, op.chunk);
  op.last_phase = static_cast<std::uint32_t>(op.chunks + 1);
}

void plan(const Context& context, Operation& op) {
  const std::size_t element = size_of(op.call->dtype);
  const std::size_t count = op.call->inputs[0].count;
  // Of an only chunk two ranks stage half per turn, so it may be longer than what they else exchange.
  const std::size_t slot = context.staging.slot_bytes();
  const bool one_chunk = context.size() == 2 && count * element <= slot;
  cut(context, op, one_chunk ? slot : context.staging.chunk_bytes(count * element));
  const std::size_t staged = folded(context, op) ? slice_elements(op.chunk, context, element) : op.chunk;
  op.room = context.staging.room_for(staged * element, op.chunks, Readers::kOneEach);
  op.staged_bytes = count * element;
  op.mutual = op.call->op != Op::kReduce;
}

// Slice `owner` of chunk `index`, in elements of the whole tensor, and its place in a slot.
struct Slice {
  Range range;
  std::size_t place;  // bytes from the start of the slot
};

Slice slice_of(const Context& context, const Operation& op, std::size_t index, int owner) {
  const std::size_t element = size_of(op.call->dtype);
  const Range chunk = chunk_of(op.call->inputs[0].count, op.chunk, index);
  const std::size_t length = slice_elements(chunk.count, context, element);
  Range range = chunk_of(chunk.count, length, static_cast<std::size_t>(owner));
  range.first += chunk.first;
  if (folded(context, op)) return {range, 0};
  return {range, static_cast<std::size_t>(owner) * slice_elements(op.chunk, context, element) * element};
}

// Whether all inputs are read where they lie, and all results are written where they are wanted, or read in the outputs.
bool nothing_staged(const Context& context, const Call& call) {
  if (!context.shown.all()) return false;
  if (call.op == Op::kReduce) return context.shown.written(call.root) != nullptr;
  for (int member = 0; member < context.size(); ++member) {
    if (!context.shown.output(member)) return false;
  }
  return true;
}

void copy_in(const Context& context, const Operation& op, std::size_t index, std::byte* slot) {
  if (context.shown.shows_input()) return;
  for (int step = 1; step < context.size(); ++step) {
    const Slice slice = slice_of(context, op, index, context.after(step));
    stage(slot + slice.place, *op.call, op.call->inputs[0], slice.range.first, slice.range.count, op.store,
          op.input_origin);
  }
}

void reduce_own(const Context& context, const Operation& op, std::size_t index, std::uint64_t turn) {
  const Slice slice = slice_of(context, op, index, context.rank());
  const std::size_t before = slice.range.first * size_of(op.call->dtype);
  Reduction piece;
  for (int member = 0; member < context.size(); ++member) {
    if (member == context.rank()) continue;
    const auto& shown = context.shown.input(member);
    piece.take(member, shown ? *shown + before : context.staging.slot(member, turn - 1, op.room) + slice.place);
  }
  piece.own = &op.call->inputs[0];
  piece.own_first = slice.range.first;
  piece.output = op.call->outputs.empty() ? nullptr : &op.call->outputs[0];
  piece.output_first = slice.range.first;
  bool read_by_peers = false;
  for (int member = 0; member < context.size(); ++member) {
    if (member == context.rank() || (op.call->op == Op::kReduce && member != op.call->root)) continue;
    if (std::byte* output = context.shown.written(member); output != nullptr) {
      piece.add_target(output + before);
    } else {
      read_by_peers = true;
    }
  }
  if (read_by_peers && !context.shown.shows_output())
    piece.add_target(context.staging.own_slot(turn, op.room, op.store) + slice.place);
  piece.count = slice.range.count;
  reduce_piece(context, op, piece);
}

void copy_out(const Context& context, const Operation& op, std::size_t index, std::uint64_t turn) {
  if (op.call->outputs.empty() || context.shown.written(context.rank()) != nullptr) return;
  const std::size_t element = size_of(op.call->dtype);
  // What was shown has been read by its owner and may lie in that processor's cache.
  const Store store = context.shown.shows_input() ? op.store : Store::kPlain;
  for (int step = 1; step < context.size(); ++step) {
    const int owner = context.after(step);
    const Slice slice = slice_of(context, op, index, owner);
    const auto& shown = context.shown.output(owner);
    const Staged source =
        shown ? *shown + slice.range.first * element : context.staging.slot(owner, turn - 1, op.room) + slice.place;
    unpack(op.call->outputs[0], slice.range.first, slice.range.count, source.data, element, store, source.origin);
  }
}

void run(const Context& context, Operation& op, std::uint32_t phase) {
  const std::uint64_t turn = op.first_turn + phase;
  if (phase == 1 && nothing_staged(context, *op.call)) cut(context, op, ShownTensors::kChunk);
  if (phase < op.chunks) copy_in(context, op, phase, context.staging.own_slot(turn, op.room, op.store));
  if (phase >= 1 && phase <= op.chunks) reduce_own(context, op, phase - 1, turn);
  if (phase >= 2 && phase <= op.chunks + 1) copy_out(context, op, phase - 2, turn);
}

}  // namespace two_shot_reduce
}  // namespace

const Algorithm kTwoShotReduce{"two-shot", two_shot_reduce::plan, two_shot_reduce::run, true, Shows::kInputsAndOutputs};

}  // namespace customccl::shm
