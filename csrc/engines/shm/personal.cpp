#include <limits>

#include "engines/move.h"
#include "engines/shm/algorithm.h"
#include "engines/shm/geometry.h"
#include "engines/shm/pair_counts.h"
#include "engines/shm/take.h"

// all_to_all, gather and scatter, n ranks: each sender has a block of its own for each receiver, of any size.
//
//   phase k   copy in     chunk k of every block that leaves this rank      -> own slot of this turn, one place per receiver
//             copy out    chunk k-1 of every block that is for this rank    -> outputs; the own block goes straight across, in parts
//
// A sender of gather or scatter shares its chunk among the receivers it has data for, so a gather uses whole ones, or pieces. In all_to_all
// it shares the same chunk, that of a large operation, among all: chunk k is then the same elements in both directions of a
// pair, and in place, what arrives replaces only what has left. Up to 48 bytes in all travel in the flag line. Everybody knows all counts (pair_counts.h), so everybody
// knows each sender's places and the number of phases.
// Cost: chunks + 1 phases, one flag wait each.

namespace customccl::shm {

namespace {
namespace personal {

// all_shown: nothing is staged.
[[gnu::hot]] Outgoing lay_out(const Context& context, const Operation& op, const PairCounts::Row& row, bool all_shown) {
  const std::size_t element = size_of(op.call->dtype);
  if (row.total * element <= kInlineBytes) [[likely]]
    return {row.longest, 1, {}};
  constexpr std::size_t kLarge = std::numeric_limits<std::size_t>::max();
  const bool mutual = op.call->op == Op::kAllToAll;
  const Traffic traffic = op.call->op == Op::kGather ? Traffic::kToOne
                          : mutual && row.alike      ? Traffic::kBothWays
                                                     : Traffic::kUneven;
  const std::size_t bytes = all_shown ? ShownTensors::kChunk * row.receivers
                                      : context.staging.chunk_bytes(mutual ? kLarge : row.total * element, traffic);
  const std::size_t limit = bytes / row.receivers / kCacheLine * kCacheLine;
  const std::size_t longest = row.longest * element;
  const std::size_t chunks = longest <= limit ? 1 : ceil_div(longest, limit);
  const std::size_t share = std::min(limit, round_up(longest, kCacheLine));
  return {share / element, chunks, context.staging.room_for(row.receivers * share, chunks, Readers::kOneEach, traffic)};
}

void lay_out_one(const Context& context, const Operation& op, int sender, bool all_shown) {
  context.pairs.outgoing(sender) = lay_out(context, op, context.pairs.row(sender), all_shown);
}

// Bytes before the receiver's block in what the sender has put down.
std::size_t place_of(const Context& context, const Operation& op, const Outgoing& outgoing, int sender, int receiver) {
  const std::size_t element = size_of(op.call->dtype);
  if (context.pairs.uniform()) [[likely]] {
    if (op.call->op == Op::kGather) return 0;
    return static_cast<std::size_t>(receiver - (receiver > sender ? 1 : 0)) * outgoing.chunk * element;
  }
  std::size_t before = 0;
  for (int other = 0; other < receiver; ++other) {
    if (!context.pairs.counts(sender, other)) continue;
    before += outgoing.in_line() ? context.pairs.sent(sender, other) : outgoing.chunk;
  }
  return before * element;
}

// When all counts are known, and what is shown. Returns the number of phases.
std::size_t lay_out_all(const Context& context, const Operation& op) {
  const bool all_shown = context.shown.all();
  if (!context.pairs.told() || all_shown) [[unlikely]] {
    for (int sender = 0; sender < context.size(); ++sender) lay_out_one(context, op, sender, all_shown);
  }
  if (context.pairs.uniform()) [[likely]]
    return context.pairs.outgoing(0).chunks;
  std::size_t most = 1;
  for (int sender = 0; sender < context.size(); ++sender) most = std::max(most, context.pairs.outgoing(sender).chunks);
  return most;
}

const View& input_for(const Call& call, int receiver) {
  return call.inputs[call.op == Op::kGather ? 0 : static_cast<std::size_t>(receiver)];
}

const View& output_from(const Call& call, int sender) {
  return call.outputs[call.op == Op::kScatter ? 0 : static_cast<std::size_t>(sender)];
}

[[gnu::hot]] void plan(const Context& context, Operation& op) {
  op.last_phase = 1;  // until all counts are known, in phase 1
  op.mutual = op.call->op == Op::kAllToAll && context.pairs.row(context.rank()).alike;
  lay_out_one(context, op, context.rank(), false);
  if (context.pairs.uniform()) [[likely]] {
    const bool reads =
        op.call->op == Op::kAllToAll || (op.call->op == Op::kGather) == (context.rank() == op.call->root);
    const Outgoing& outgoing = context.pairs.outgoing(context.rank());
    if (reads && !outgoing.in_line()) op.reads = outgoing.chunk * size_of(op.call->dtype);
  } else if (context.pairs.of_two()) {
    lay_out_one(context, op, context.after(1), false);
  }
  op.staged_bytes = context.pairs.sent_by(context.rank()) * size_of(op.call->dtype);
}

[[gnu::hot]] const std::byte* read_at(const Context& context, const Operation& op, int member) {
  if (context.pairs.sent(member, context.rank()) == 0) return nullptr;
  const Outgoing& outgoing = context.pairs.outgoing(member);
  return context.staging.slot(member, op.first_turn + op.phase - 1, outgoing.room).data +
         place_of(context, op, outgoing, member, context.rank());
}

void copy_in(const Context& context, Operation& op, std::uint32_t phase) {
  if (context.shown.shows_input()) return;
  const Call& call = *op.call;
  const Outgoing outgoing = context.pairs.outgoing(context.rank());
  op.room = outgoing.room;
  std::byte* base = outgoing.in_line() ? context.members.own_line(op.first_turn).payload
                                       : context.staging.own_slot(op.first_turn + phase, outgoing.room, op.store);
  for (int step = 1; step < context.size(); ++step) {
    const int receiver = context.after(step);
    const Range range = chunk_of(context.pairs.sent(context.rank(), receiver), outgoing.chunk, phase);
    if (range.count == 0) continue;
    std::byte* to = base + place_of(context, op, outgoing, context.rank(), receiver);
    pack(to, input_for(call, receiver), range.first, range.count, size_of(call.dtype), op.store, op.input_origin);
  }
}

// Where `sender` has its chunk phase-1 for this rank.
Staged staged_by(const Context& context, const Operation& op, int sender, const Outgoing& outgoing,
                 std::uint32_t phase) {
  if (const auto& shown = context.shown.input(sender); shown && !outgoing.in_line()) {
    std::size_t before = (phase - 1) * outgoing.chunk;
    for (int receiver = 0; receiver < context.rank(); ++receiver) before += context.pairs.sent(sender, receiver);
    return *shown + before * size_of(op.call->dtype);
  }
  const Staged all = outgoing.in_line() ? Staged{context.members.line(sender, op.first_turn).payload}
                                        : context.staging.slot(sender, op.first_turn + phase - 1, outgoing.room);
  return all + place_of(context, op, outgoing, sender, context.rank());
}

void copy_out(const Context& context, const Operation& op, std::uint32_t phase) {
  const Call& call = *op.call;
  for (int step = 1; step < context.size(); ++step) {
    const int sender = context.after(step);
    const std::size_t count = context.pairs.sent(sender, context.rank());
    if (count == 0) continue;
    const Outgoing outgoing = context.pairs.outgoing(sender);
    const Range range = chunk_of(count, outgoing.chunk, phase - 1);
    if (range.count == 0) continue;
    const Staged from = staged_by(context, op, sender, outgoing, phase);
    take(context, output_from(call, sender), range.first, range.count, from, size_of(call.dtype), op.output_store);
  }
}

std::size_t own_count(const Context& context) { return context.pairs.sent(context.rank(), context.rank()); }

void move_own(const Context& context, const Operation& op, Range range) {
  if (range.count == 0) return;
  const Call& call = *op.call;
  const View& output = output_from(call, context.rank());
  if (output.count != own_count(context)) [[unlikely]]
    return;  // the comparison of counts will tell
  move_elements(call, context.scratch, input_for(call, context.rank()), output, range.first, range.count,
                op.output_store, op.input_origin);
}

// While the others come.
[[gnu::hot]] void meanwhile(const Context& context, Operation& op) {
  const std::size_t count = own_count(context);
  if (count * size_of(op.call->dtype) > context.staging.slot_bytes()) [[unlikely]]
    return;
  move_own(context, op, {0, count});
  op.own_moved = true;
}

// Else in equal parts, so that senders need not wait for a receiver that does nothing else; not in the last phase, before which a rank
// may have to wait for a sender.
void move_part_of_own(const Context& context, const Operation& op, std::uint32_t phase) {
  const std::size_t count = own_count(context);
  const std::size_t part = round_up(ceil_div(count, std::max(op.last_phase, 2u) - 1), kCacheLine);
  move_own(context, op, chunk_of(count, part, phase - 1));
}

[[gnu::hot]] void run(const Context& context, Operation& op, std::uint32_t phase) {
  if (phase == 1) op.last_phase = static_cast<std::uint32_t>(lay_out_all(context, op));
  if (phase >= 1 && !op.own_moved) [[unlikely]]
    move_part_of_own(context, op, phase);
  if (phase < op.last_phase) copy_in(context, op, phase);
  if (phase >= 1) copy_out(context, op, phase);
}

}  // namespace personal
}  // namespace

const Algorithm kPersonal{"personal",     personal::plan,    personal::run,      true,
                          Shows::kInputs, personal::read_at, personal::meanwhile};

}  // namespace customccl::shm
