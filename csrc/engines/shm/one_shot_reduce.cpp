#include "engines/shm/algorithm.h"
#include "engines/shm/reduce_pieces.h"

// Small all_reduce and reduce, and reduce_scatter of a few bytes, one shot, n ranks:
//
//   phase 0   stage the whole input         -> own flag line (up to 48 bytes) or own staging slot (reduce: all but the root)
//   phase 1   reduce the own input and the n-1 staged copies, in rank order 0..n-1 -> output (reduce_scatter: own block only;
//             reduce: root only)
//
// Cost: one flag wait; every rank reads n-1 copies. The fastest while latency counts, not bytes. The own staged copy is not read:
// lines that only the peer has read are written three times as fast the next time (256 KiB, 2 ranks, near cores: 7 and 24 us).

namespace customccl::shm {

namespace {
namespace one_shot_reduce {

[[gnu::hot]] void plan(const Context& context, Operation& op) {
  const Call& call = *op.call;
  op.last_phase = 1;
  const std::size_t bytes = count_of(call.inputs) * size_of(call.dtype);
  op.room =
      context.staging.room_for(bytes, 1, Readers::kAll, call.op == Op::kReduce ? Traffic::kToOne : Traffic::kBothWays);
  if (!call.outputs.empty()) op.reads = bytes;
  const bool only_reads = call.op == Op::kReduce && context.rank() == call.root && ready(call, call.inputs[0]);
  op.staged_bytes = only_reads ? 0 : bytes;
  op.mutual = call.op != Op::kReduce;
}

[[gnu::hot]] const std::byte* read_at(const Context& context, const Operation& op, int member) {
  return context.staging.slot(member, op.first_turn, op.room).data;
}

[[gnu::hot, gnu::noinline]] void stage_inputs(std::byte* target, const Operation& op) {
  for (const View& view : op.call->inputs) {
    stage(target, *op.call, view, 0, view.count, op.store);
    target += view.count * size_of(op.call->dtype);
  }
}

// Of the inputs, the one that this rank wants reduced.
std::size_t own_block(const Context& context, const Call& call) {
  return call.op == Op::kReduceScatter ? static_cast<std::size_t>(context.rank()) : 0;
}

// Reduces the part of the inputs that this rank wants. staged_by(member): where the member's copy begins.
template <class StagedBy>
[[gnu::hot]] void reduce_staged(const Context& context, const Operation& op, StagedBy&& staged_by) {
  const Call& call = *op.call;
  if (call.outputs.empty()) return;
  const std::size_t block = own_block(context, call);
  const std::size_t skipped = count_of(call.inputs.first(block));
  Reduction piece;
  const View& own = call.inputs[block];
  if (ready(call, own)) piece.own = &own;  // else it is read as it was staged
  for (int member = 0; member < context.size(); ++member) {
    // Where it need not, a rank does not look at its own line: a peer's look may have taken it away.
    if (member == context.rank() && piece.own != nullptr) continue;
    piece.take(member, staged_by(member) + skipped * size_of(call.dtype));
  }
  piece.output = &call.outputs[0];
  piece.count = call.outputs[0].count;
  reduce_piece(context, op, piece);
}

// The same of a few bytes, without what only more of them need.
[[gnu::hot]] void plan_inline(const Context&, Operation& op) { op.last_phase = 1; }

[[gnu::hot]] void stage_few(std::byte* target, const Operation& op) {
  const Call& call = *op.call;
  const std::size_t element = size_of(call.dtype);
  std::byte* next = target;
  for (const View& view : call.inputs) {
    if (!ready(call, view)) [[unlikely]]
      return stage_inputs(target, op);
    const std::size_t bytes = view.count * element;
    if (bytes != 0) [[likely]]
      copy_few(next, view.at(0, element), bytes);
    next += bytes;
  }
}

[[gnu::hot]] void reduce_few(const Context& context, const Operation& op) {
  const auto payload = [&](int member) { return context.members.line(member, op.first_turn).payload; };
  const Call& call = *op.call;
  if (call.outputs.empty()) return;
  const View& output = call.outputs[0];
  const std::size_t block = own_block(context, call);
  const View& own = call.inputs[block];
  if (!ready(call, own) || !output.contiguous()) [[unlikely]] {
    return reduce_staged(context, op, [&](int member) { return Staged{payload(member)}; });
  }
  const std::size_t element = size_of(call.dtype);
  const std::size_t skipped = block == 0 ? 0 : count_of(call.inputs.first(block)) * element;
  std::array<const std::byte*, kMaxMembers> sources;
  for (int member = 0; member < context.size(); ++member) {
    sources[static_cast<std::size_t>(member)] = payload(member) + skipped;
  }
  sources[static_cast<std::size_t>(context.rank())] = own.at(0, element);
  reduce(output.at(0, element), {sources.data(), static_cast<std::size_t>(context.size())}, output.count, call.dtype,
         call.reduce_op);
}

[[gnu::hot]] void run_inline(const Context& context, Operation& op, std::uint32_t phase) {
  if (phase == 0) {
    stage_few(context.members.own_line(op.first_turn).payload, op);
  } else {
    reduce_few(context, op);
  }
}

[[gnu::hot]] void run_staged(const Context& context, Operation& op, std::uint32_t phase) {
  if (phase == 0) {
    if (op.staged_bytes != 0) stage_inputs(context.staging.own_slot(op.first_turn, op.room, op.store), op);
  } else {
    reduce_staged(context, op, [&](int member) { return context.staging.slot(member, op.first_turn, op.room); });
  }
}

}  // namespace one_shot_reduce
}  // namespace

const Algorithm kInlineReduce{"inline", one_shot_reduce::plan_inline, one_shot_reduce::run_inline, false,
                              Shows::kNothing};
const Algorithm kOneShotReduce{"one-shot", one_shot_reduce::plan, one_shot_reduce::run_staged,
                               true,       Shows::kNothing,       one_shot_reduce::read_at};

}  // namespace customccl::shm
