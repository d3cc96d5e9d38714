#include "engines/shm/shm_engine.h"

#include <algorithm>

#include "base/extent.h"
#include "engines/shm/fingerprint.h"
#include "engines/shm/geometry.h"
#include "kernels/strings.h"
#include "platform/cpu.h"

namespace customccl::shm {

namespace {

// Peers may learn late that a rank is on another processor now: it is a hint.
constexpr std::uint64_t kShowProcessor = 16;

// So much of what peers have staged is fetched before the calls have been compared: 64 B to 1 KiB take 1.05 to 1.1x (near cores) or
// 1.03 to 1.2x (far) less. Of more than that the first lines alone would do it for far cores (1.06x), but near ones take 1.2x longer.
constexpr std::size_t kFetched = 1024;

// Up to so many bytes, the lines where the next operation like this one will stage come back from the peers' caches while this rank goes
// on. Waited for, they take as long as the data does.
//   across a mesh     all_reduce of 4 KiB 1.96 us, so 1.24, all_gather 1.19 and 0.87, broadcast of 16 KiB 2.9 and 2.0. A rank that only
//                     sends has time for more: broadcast of 64 KiB 7.5 us and 4.9; where all send, those would be late (all_reduce of
//                     64 KiB 1.07x slower).
//   Zen 5             what is not copied by strings: 4 KiB 0.77 to 0.92 of the time far, 0.85 to 0.97 near (all_reduce 1.06 far); where
//                     strings follow, they gain nothing far and lose near (all_reduce of 16 KiB 1.2x).
//   else (Zen 4)      64 B to 1 KiB 0.67 to 1.0 near, far 0.7 to 1.15, and what a rank only sends, up to 16 KiB: broadcast, gather, scatter
//                     and reduce of 2 to 32 KiB 0.81 to 0.97, far 0.7 to 1.05 (scatter of 2 KiB 1.08; more than 16 KiB: nothing gained)
std::size_t reclaimed(bool only_sends) {
  if (cores_on_mesh()) return (only_sends ? 64 : 16) << 10;
  if (strings_write_lines()) return kernels::kStringsAbove;
  return (only_sends ? 16 : 1) << 10;
}

bool only_sends(const Call& call, int rank) {
  switch (call.op) {
    case Op::kBroadcast:
    case Op::kScatter: return rank == call.root;
    case Op::kGather:
    case Op::kReduce: return rank != call.root;
    default: return false;
  }
}

// Whether any input lies on an output, so that both together are less than they count.
bool shares_memory(const Call& call, std::size_t element) {
  const auto lies_on_output = [&](const View& input) {
    const Extent extent = extent_of(input, element);
    return std::ranges::any_of(call.outputs,
                               [&](const View& output) { return extent_of(output, element).meets(extent); });
  };
  return std::ranges::any_of(call.inputs, lies_on_output);
}

// Tensors of all ranks that exceed the last-level cache will not be found there. What moves from one tensor to another is not from three
// quarters of it on, as others use it, too: all_gather of 8 to 10 MiB 0.85 to 0.9 of the time near, 0.54 to 1.0 far, all_to_all of 6 to 8
// MiB 0.82 to 1.0 and 0.7 to 0.9, scatter and gather 0.56 to 0.92 and 0.77 to 0.9; reductions, broadcasts and messages up to 1.09. (Zen 4;
// not measured across a mesh.)
bool beyond_caches(const Call& call, int size) {
  const std::size_t element = size_of(call.dtype);
  const std::size_t bytes = (count_of(call.inputs) + count_of(call.outputs)) * element * static_cast<std::size_t>(size);
  if (exceeds_caches(bytes)) return true;
  const bool moves =
      !call.inputs.empty() && !call.outputs.empty() && !info(call.op).reduces && call.op != Op::kBroadcast;
  return moves && exceeds_caches(bytes / 3 * 4) && !cores_on_mesh() && !shares_memory(call, element);
}

}  // namespace

// Likely is here what small operations do: beside a long one's copies a jump is nothing, beside theirs it counts.

Step ShmEngine::start(Operation& op, Status& failure) {
  const Call& call = *op.call;
  // Peers have looked at it: it comes back meanwhile. (8 B near 0.82 to 1.0 of the time, far 0.93 to 0.99. Not where others only wait for
  // this rank's data, which takes longer: they would take it away again; 4 KiB in step 1.2x.)
  const bool awaited = only_sends(call, context_.rank()) && count_of(call.inputs) * size_of(call.dtype) > kFetched;
  if (!awaited) [[likely]]
    fetch_to_write(&members_->own_line(turn_ + 1));
  const bool personal = is_personal(call.op);
  if (personal) [[unlikely]]
    pairs_.set_own(call, context_.rank(), context_.size(), shown_.little() / size_of(call.dtype));
  const Algorithm& algorithm = select(context_, call);
  op.algorithm = &algorithm;
  algorithm.plan(context_, op);
  op.first_turn = turn_ + 1;
  Line& line = members_->own_line(op.first_turn);
  if (!algorithm.uses_staging) [[likely]] {
    algorithm.run(context_, op, 0);
    signature_ = fingerprint(op, pairs_) ^ members_->identity();
  } else if (Status status = stage(op, line); !status.ok()) {
    return failed(std::move(status), failure);
  }
  const bool shows_counts = personal && !pairs_.of_two();
  if (shows_counts) [[unlikely]]
    pairs_.show(*members_, call, op.first_turn);
  line.signature = signature_;
  members_->publish(line, op.first_turn, op.store, op.asks);
  if (shows_counts) [[unlikely]]
    record(op);
  if (algorithm.uses_staging && algorithm.meanwhile != nullptr) algorithm.meanwhile(context_, op);
  if (op.sequence % kShowProcessor == 0) members_->show_processor();
  turn_ = op.first_turn;
  op.phase = 1;
  op.cursor = 0;
  return Step::kMoved;
}

Status ShmEngine::stage(Operation& op, Line& line) {
  signature_ = fingerprint(op, pairs_) ^ members_->identity();  // of what was planned: phase 0 may cut it up otherwise
  const bool far = beyond_caches(*op.call, context_.size());
  if (far) {
    op.input_origin = Origin::kMemory;
    // Around the caches: else what is written there is read first. What was reduced comes from what was read.
    if (!info(op.call->op).reduces) op.output_store = Store::kStreaming;
  }
  shown_.begin(*op.call, op.algorithm->shows, !far);
  op.store = staging_.takes_plain_stores() ? choose_store(op) : Store::kStreaming;
  if (Status status = staging_.ensure_own(); !status.ok()) return status;
  staging_.begin(op.first_turn);
  if (op.measured) measure(op);
  run_phase(op);
  if (op.measured && !op.mutual) ask_readers(op);
  shown_.show(*op.call, line);
  return {};
}

Store ShmEngine::choose_store(Operation& op) {
  if (!op.mutual && reader_times_.waits()) reader_times_.look();
  const Store store = store_policy().choose(op.staged_bytes, kind_of(op), op.measured);
  if (op.measured && !op.mutual && reader_times_.waits()) {
    store_policy().forget(store, op.staged_bytes, kind_of(op));
    op.measured = false;
  }
  return store;
}

void ShmEngine::measure(Operation& op) {
  op.measured = true;
  staging_.take_mapped();
  stopwatch_ = Stopwatch();
}

void ShmEngine::ask_readers(Operation& op) {
  op.measured = false;
  if (staging_.take_mapped()) return store_policy().forget(op.store, op.staged_bytes, kind_of(op));
  op.asks = true;
  reader_times_.ask(op.first_turn, store_policy(), kind_of(op), op.store, op.staged_bytes,
                    stopwatch_.total(Clock::now()));
}

Step ShmEngine::advance(Operation& op, Status& failure) {
  if (!members_->reached(op.first_turn + op.phase - 1, op.cursor)) [[unlikely]]
    return Step::kWaiting;
  const Algorithm& algorithm = *op.algorithm;
  if (algorithm.uses_staging && op.reads != 0 && op.reads <= kFetched) fetch_staged(op);
  if (op.phase == 1) {
    const bool same = members_->signed_alike(op.first_turn, signature_);
    if (!same && !all_recorded(op)) [[unlikely]]
      return Step::kWaiting;
    if (!same || algorithm.uses_staging) [[unlikely]] {
      if (Status status = enter(op, same); !status.ok()) return failed(std::move(status), failure);
    }
  }
  run_phase(op);
  if (op.phase != op.last_phase || op.reads_shown) [[unlikely]]
    return go_on(op, failure);
  if (algorithm.uses_staging) [[unlikely]]
    end_staged(op);
  return Step::kDone;
}

void ShmEngine::run_measured(Operation& op) {
  stopwatch_.begin_phase(Clock::now());
  op.algorithm->run(context_, op, op.phase);
  if (op.phase == 0) stopwatch_.pause(Clock::now());  // what follows is the wait for late ranks
}

Step ShmEngine::go_on(Operation& op, Status& failure) {
  if (op.reads_shown) {
    const bool all_done = op.phase > op.last_phase;
    if (Status status = all_done ? shown_.still_shown() : shown_.all_read(); !status.ok())
      return failed(std::move(status), failure);
    if (all_done) {
      end_staged(op);
      return Step::kDone;
    }
  }
  turn_ = op.first_turn + op.phase;
  members_->publish(members_->own_line(turn_), turn_, op.store);
  ++op.phase;
  op.cursor = 0;
  return Step::kMoved;
}

Step ShmEngine::failed(Status&& why, Status& failure) {
  failure = std::move(why);
  return Step::kFailed;
}

void ShmEngine::end_staged(const Operation& op) {
  staging_.end(op.phase);
  if (op.measured) learn_from(op);
  const bool staged = op.staged_bytes != 0 && !shown_.shows_input();
  if (!staged || op.store != Store::kPlain) return;
  if (op.room.bytes <= reclaimed(only_sends(*op.call, context_.rank())))
    staging_.fetch_own_slot(op.first_turn + op.phase, op.room);
}

void ShmEngine::learn_from(const Operation& op) {
  const Nanos took = stopwatch_.total(Clock::now());
  const bool mapped = staging_.take_mapped();
  if (op.tells) reader_times_.tell(op.first_turn, mapped ? std::nullopt : std::optional(took));
  if (!op.mutual) return;
  if (mapped) return store_policy().forget(op.store, op.staged_bytes, kind_of(op));
  store_policy().observe(op.store, op.staged_bytes, kind_of(op), took);
}

void ShmEngine::fetch_staged(const Operation& op) {
  if (!staging_.complete()) return;
  for (int member = 0; member < context_.size(); ++member) {
    if (member == context_.rank()) continue;
    const std::byte* staged = op.algorithm->read_at(context_, op, member);
    if (staged == nullptr) continue;
    for (std::size_t i = 0; i < op.reads; i += kCacheLine) __builtin_prefetch(staged + i);
  }
}

Status ShmEngine::enter(Operation& op, bool same) {
  const bool personal = is_personal(op.call->op);
  // Else nobody asks; where it is personal, others may have other rooms.
  if (op.room.bytes > StorePolicy::kSmall || personal) {
    op.tells = reader_times_.asked(op.first_turn);
    if (op.tells && !op.measured) measure(op);
  }
  if (!same || (personal && !pairs_.told())) {
    if (Status status = compare_records(op); !status.ok()) return status;
  }
  if (op.algorithm->shows != Shows::kNothing) {
    if (Status status = shown_.find(*op.call, op.first_turn); !status.ok()) return status;
    op.reads_shown = shown_.any();
  }
  return staging_.ensure_all();
}

void ShmEngine::record(const Operation& op) {
  Line& line = members_->own_line(op.first_turn);
  if (is_personal(op.call->op) && pairs_.of_two()) pairs_.show(*members_, *op.call, op.first_turn);
  line.record = record_of(*op.call, op.sequence);
  line.recorded.store(op.first_turn, std::memory_order_release);
}

bool ShmEngine::all_recorded(const Operation& op) {
  if (!recorded(op, context_.rank())) {
    record(op);
    members_->ring_all();
  }
  for (int member = 0; member < context_.size(); ++member) {
    if (!recorded(op, member)) return false;
  }
  return true;
}

Status ShmEngine::compare_records(const Operation& op) {
  const bool personal = is_personal(op.call->op);
  for (int member = 0; member < context_.size(); ++member) {
    const Line& line = members_->line(member, op.first_turn);
    if (line.signature == signature_) [[likely]]
      continue;
    const CallRecord own = record_of(*op.call, op.sequence);
    if (personal && same_but_counts(line.record, own)) continue;
    std::string difference = "the ranks called different things: " + members_->describe(member) + " called " +
                             describe(line.record) + ", " + members_->describe(context_.rank()) + " called " +
                             describe(own);
    if (describe(line.record) == describe(own)) difference += " with other counts per rank";
    return {Code::kMismatch, std::move(difference), members_->global_rank(member)};
  }
  return pairs_.read_all(*members_, op);
}

std::vector<int> ShmEngine::awaited(const Operation& op) const {
  if (op.phase == 0) return {};
  std::vector<int> members = members_->not_reached(op.first_turn + op.phase - 1);
  if (!members.empty() || op.phase > 1 || members_->signed_alike(op.first_turn, signature_)) return members;
  for (int member = 0; member < context_.size(); ++member) {
    if (!recorded(op, member)) members.push_back(member);
  }
  return members;
}

}  // namespace customccl::shm
