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

// How one sender lays its blocks out.
struct Outgoing {
  bool in_line = false;   // all of it in the flag line
  std::size_t chunk = 0;  // elements per receiver and phase
  std::size_t place = 0;  // bytes before the block of the receiver asked for
  std::size_t room = 0;   // bytes of a slot that one phase uses
};

// What a sender has for all receivers together, and for those before the one asked for.
struct Row {
  std::size_t receivers = 0, before = 0;
  std::size_t total = 0, total_before = 0;  // elements
  std::size_t longest = 0;
};

// Of a sender that has something for others.
Row row_of(const Context& context, const Operation& op, int sender, int receiver) {
  const bool mutual = op.call->op == Op::kAllToAll;
  Row row;
  if (context.pairs.uniform()) {
    const bool one = op.call->op == Op::kGather;
    row.longest = context.pairs.uniform_count();
    row.receivers = one ? 1 : static_cast<std::size_t>(context.size() - 1);
    row.before = one ? 0 : static_cast<std::size_t>(receiver - (receiver > sender ? 1 : 0));
    row.total = row.receivers * row.longest;
    row.total_before = row.before * row.longest;
    return row;
  }
  for (int other = 0; other < context.size(); ++other) {
    const std::size_t count = context.pairs.sent(sender, other);
    if (other == sender || (count == 0 && !mutual)) continue;
    ++row.receivers;
    row.total += count;
    row.longest = std::max(row.longest, count);
    if (other < receiver) {
      ++row.before;
      row.total_before += count;
    }
  }
  return row;
}

[[gnu::hot]] Outgoing layout_of(const Context& context, const Operation& op, int sender, int receiver) {
  const std::size_t element = size_of(op.call->dtype);
  const Row row = row_of(context, op, sender, receiver);
  if (row.total * element <= kInlineBytes) return {true, row.total, row.total_before * element, 0};
  constexpr std::size_t kLarge = std::numeric_limits<std::size_t>::max();
  const bool mutual = op.call->op == Op::kAllToAll;
  const Traffic traffic = op.call->op == Op::kGather ? Traffic::kToOne : Traffic::kBothWays;
  const std::size_t chunk = context.shown.all()
                                ? ShownTensors::kChunk * row.receivers
                                : context.staging.chunk_bytes(mutual ? kLarge : row.total * element, traffic);
  const std::size_t limit = chunk / row.receivers / kCacheLine * kCacheLine;
  const std::size_t share = std::min(limit, round_up(row.longest * element, kCacheLine));
  const std::size_t chunks = ceil_div(row.longest * element, limit);
  return {false, share / element, row.before * share, context.staging.room_for(row.receivers * share, chunks, traffic)};
}

std::size_t phases_needed(const Context& context, const Operation& op) {
  std::size_t most = 1;
  for (int sender = 0; sender < context.size(); ++sender) {
    std::size_t longest = 0;
    for (int receiver = 0; receiver < context.size(); ++receiver) {
      if (receiver != sender) longest = std::max<std::size_t>(longest, context.pairs.sent(sender, receiver));
    }
    if (longest == 0) continue;
    const Outgoing outgoing = layout_of(context, op, sender, sender);
    if (!outgoing.in_line) most = std::max(most, ceil_div(longest, outgoing.chunk));
    if (context.pairs.uniform()) break;  // all who send have as much
  }
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
  op.staged_bytes = 0;
  for (int receiver = 0; receiver < context.size(); ++receiver) {
    if (receiver != context.rank())
      op.staged_bytes += context.pairs.sent(context.rank(), receiver) * size_of(op.call->dtype);
  }
}

void copy_in(const Context& context, Operation& op, std::uint32_t phase) {
  if (context.shown.shows_input()) return;
  const Call& call = *op.call;
  for (int step = 1; step < context.size(); ++step) {
    const int receiver = (context.rank() + step) % context.size();
    if (context.pairs.sent(context.rank(), receiver) == 0) continue;
    const View& block = input_for(call, receiver);
    const Outgoing outgoing = layout_of(context, op, context.rank(), receiver);
    const Range range = chunk_of(block.count, outgoing.chunk, phase);
    op.room = outgoing.room;
    std::byte* base = outgoing.in_line ? context.members.own_line(op.first_turn).payload
                                       : context.staging.own_slot(op.first_turn + phase, outgoing.room, op.store);
    if (range.count == 0) continue;
    pack(base + outgoing.place, block, range.first, range.count, size_of(call.dtype), op.store, op.input_origin);
  }
}

// Where `sender` has its chunk phase-1 for this rank.
Staged staged_by(const Context& context, const Operation& op, int sender, const Outgoing& outgoing,
                 std::uint32_t phase) {
  if (outgoing.in_line) return Staged{context.members.line(sender, op.first_turn).payload} + outgoing.place;
  const auto& shown = context.shown.input(sender);
  if (!shown) return context.staging.slot(sender, op.first_turn + phase - 1, outgoing.room) + outgoing.place;
  std::size_t before = (phase - 1) * outgoing.chunk;
  for (int receiver = 0; receiver < context.rank(); ++receiver) before += context.pairs.sent(sender, receiver);
  return *shown + before * size_of(op.call->dtype);
}

void copy_out(const Context& context, const Operation& op, std::uint32_t phase) {
  const Call& call = *op.call;
  for (int step = 1; step < context.size(); ++step) {
    const int sender = (context.rank() + step) % context.size();
    const std::size_t count = context.pairs.sent(sender, context.rank());
    if (count == 0) continue;
    const Outgoing outgoing = layout_of(context, op, sender, context.rank());
    const Range range = chunk_of(count, outgoing.chunk, phase - 1);
    if (range.count == 0) continue;
    const Staged from = staged_by(context, op, sender, outgoing, phase);
    take(context, output_from(call, sender), range.first, range.count, from, size_of(call.dtype), op.output_store);
  }
}

// In equal parts, so that senders need not wait for a receiver that does nothing else; not in the last phase, before which a rank may
// have to wait for a sender.
void move_own(const Context& context, const Operation& op, std::uint32_t phase) {
  const Call& call = *op.call;
  const std::size_t count = context.pairs.sent(context.rank(), context.rank());
  const std::size_t part = round_up(ceil_div(count, std::max(op.last_phase, 2u) - 1), kCacheLine);
  const Range range = chunk_of(count, part, phase - 1);
  if (range.count == 0) return;
  move_elements(call, context.scratch, input_for(call, context.rank()), output_from(call, context.rank()), range.first,
                range.count, op.output_store, op.input_origin);
}

[[gnu::hot]] void run(const Context& context, Operation& op, std::uint32_t phase) {
  if (phase == 1) op.last_phase = static_cast<std::uint32_t>(phases_needed(context, op));
  if (phase >= 1) move_own(context, op, phase);
  if (phase < op.last_phase) copy_in(context, op, phase);
  if (phase >= 1) copy_out(context, op, phase);
}

}  // namespace

const Algorithm kPersonal{"personal", plan, run, true, Shows::kInputs};

}  // namespace customccl::shm
