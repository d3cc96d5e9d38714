#include "engines/move.h"
#include "engines/shm/algorithm.h"
#include "engines/shm/geometry.h"
#include "engines/shm/take.h"

// broadcast and all_gather (also with blocks of different sizes), n ranks: everybody reads the same from each sender.
//
//   phase k   copy in     chunk k of the own block           -> own slot of this turn (or, up to 48 bytes, the flag line);
//                         nothing where the block is shown (shown_tensors.h)
//             copy out    chunk k-1 of every sender's block  -> outputs; the own block goes straight from input to output
//
// Cost: chunks + 1 phases, one flag wait each; a sender stages its block once, however many read it.

namespace customccl::shm {

namespace {
namespace multicast {

bool sends(const Call& call) { return !call.inputs.empty(); }

std::size_t longest_block(const Call& call) {
  std::size_t longest = sends(call) ? call.inputs[0].count : 0;
  for (const View& view : call.outputs) longest = std::max(longest, view.count);
  return longest;
}

// Into chunks of at most so many bytes.
[[gnu::hot]] void cut(Operation& op, std::size_t longest, std::size_t bytes) {
  const std::size_t element = size_of(op.call->dtype);
  op.chunk = even_chunk(longest, elements_within(bytes, element), kCacheLine / element);
  op.chunks = ceil_div(longest, op.chunk);
  op.last_phase = static_cast<std::uint32_t>(std::max<std::size_t>(op.chunks, 1));
}

[[gnu::hot]] void lay_out(const Context& context, Operation& op, std::size_t longest, Traffic traffic, Store store) {
  const std::size_t element = size_of(op.call->dtype);
  cut(op, longest, context.staging.chunk_bytes(longest * element, traffic, store));
  op.room = context.staging.room_for(std::min(longest, op.chunk) * element, op.chunks, Readers::kAll, traffic);
}

// By the root's kind of store, which the others see by the flag of its first turn.
void lay_out_again(const Context& context, Operation& op, Store store) {
  const std::size_t longest = longest_block(*op.call);
  if (longest * size_of(op.call->dtype) <= context.staging.slot_bytes()) [[likely]]
    return;
  lay_out(context, op, longest, Traffic::kFromOne, store);
}

[[gnu::hot]] void plan(const Context& context, Operation& op) {
  const Call& call = *op.call;
  const std::size_t element = size_of(call.dtype);
  const std::size_t longest = longest_block(call);
  const auto size = static_cast<std::size_t>(context.size());
  const Traffic traffic = call.op == Op::kBroadcast                  ? Traffic::kFromOne
                          : count_of(call.outputs) == size * longest ? Traffic::kBothWays
                                                                     : Traffic::kUneven;
  lay_out(context, op, longest, traffic, Store::kStreaming);
  op.reads = call.op == Op::kAllGather || context.rank() != call.root ? op.room.bytes : 0;
  op.mutual = traffic == Traffic::kBothWays;
  op.staged_bytes = sends(call) ? call.inputs[0].count * element : 0;
}

[[gnu::hot]] const std::byte* read_at(const Context& context, const Operation& op, int member) {
  if (op.call->op == Op::kBroadcast && member != op.call->root) return nullptr;
  return context.staging.slot(member, op.first_turn + op.phase - 1, op.room).data;
}

void copy_in(const Operation& op, std::size_t index, std::byte* target) {
  const View& block = op.call->inputs[0];
  const Range range = chunk_of(block.count, op.chunk, index);
  pack(target, block, range.first, range.count, size_of(op.call->dtype), op.store, op.input_origin);
}

void move_own(const Context& context, const Operation& op, std::size_t index) {
  const Call& call = *op.call;
  const View& output = call.outputs[static_cast<std::size_t>(context.rank())];
  const Range range = chunk_of(output.count, op.chunk, index);
  move_elements(call, context.scratch, call.inputs[0], output, range.first, range.count, op.output_store,
                op.input_origin);
}

// staged_by(member): the member's chunk `index`, as it staged it.
template <class StagedBy>
void copy_out(const Context& context, const Operation& op, std::size_t index, StagedBy&& staged_by) {
  const Call& call = *op.call;
  const bool gather = call.op == Op::kAllGather;
  for (int step = 1; step < context.size(); ++step) {
    const int sender = context.after(step);
    if (!gather && sender != call.root) continue;
    const View& output = call.outputs[gather ? static_cast<std::size_t>(sender) : 0];
    const Range range = chunk_of(output.count, op.chunk, index);
    const Staged from = staged_by(sender);
    take(context, output, range.first, range.count, from, size_of(call.dtype), op.output_store);
  }
}

// While the others come.
[[gnu::hot]] void meanwhile(const Context& context, Operation& op) {
  op.own_moved = op.call->op != Op::kAllGather;
  if (op.own_moved || op.chunks > 1) return;
  move_own(context, op, 0);
  op.own_moved = true;
}

[[gnu::hot]] void run_staged(const Context& context, Operation& op, std::uint32_t phase) {
  const std::uint64_t turn = op.first_turn + phase;
  if (op.call->op == Op::kBroadcast) {
    const int root = op.call->root;
    const bool own = root == context.rank();
    if (phase == (own ? 0 : 1))
      lay_out_again(context, op, own ? op.store : context.members.line(root, op.first_turn).store());
  }
  if (phase == 1 && context.shown.all()) [[unlikely]]
    cut(op, longest_block(*op.call), ShownTensors::kChunk);
  const bool staged = sends(*op.call) && !context.shown.shows_input();
  if (phase < op.chunks && staged) copy_in(op, phase, context.staging.own_slot(turn, op.room, op.store));
  if (phase >= 1 && phase <= op.chunks) {
    const std::size_t before = (phase - 1) * op.chunk * size_of(op.call->dtype);
    if (!op.own_moved) move_own(context, op, phase - 1);
    copy_out(context, op, phase - 1, [&](int member) {
      const auto& shown = context.shown.input(member);
      return shown ? *shown + before : context.staging.slot(member, turn - 1, op.room);
    });
  }
}

[[gnu::hot]] void run_inline(const Context& context, Operation& op, std::uint32_t phase) {
  if (phase == 0) {
    if (sends(*op.call)) copy_in(op, 0, context.members.own_line(op.first_turn).payload);
  } else {
    if (op.call->op == Op::kAllGather) move_own(context, op, 0);
    copy_out(context, op, 0, [&](int member) { return Staged{context.members.line(member, op.first_turn).payload}; });
  }
}

}  // namespace multicast
}  // namespace

const Algorithm kMulticast{"multicast",    multicast::plan,    multicast::run_staged, true,
                           Shows::kInputs, multicast::read_at, multicast::meanwhile};
const Algorithm kInlineMulticast{"inline", multicast::plan, multicast::run_inline, false, Shows::kNothing};

}  // namespace customccl::shm
