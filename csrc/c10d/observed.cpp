#include <c10/util/StringUtil.h>

#include "c10d/comms_record.h"
#include "c10d/launch.h"

// Calls that somebody watches: torch's profiler, its flight recorder, hooks. Off the fast path, so it may allocate.

namespace customccl::torch_shim {

namespace {

bool is_p2p(::c10d::OpType type) {
  return type == ::c10d::OpType::SEND || type == ::c10d::OpType::RECV || type == ::c10d::OpType::RECVANYSOURCE;
}

// The names that torch's analyser of flight records takes; it refuses those of backends it does not know. Peers are ranks of the
// group: "send 0->1", "recv 1<-0" (-1: any).
std::string flight_name(::c10d::OpType type, const char* title, int rank, int peer) {
  const std::string own = std::to_string(rank);
  switch (type) {
    case ::c10d::OpType::SEND: return "gloo:send " + own + "->" + std::to_string(peer);
    case ::c10d::OpType::RECV:
    case ::c10d::OpType::RECVANYSOURCE: return "gloo:recv " + own + "<-" + std::to_string(peer);
    case ::c10d::OpType::BARRIER: return "gloo:all_reduce_barrier";
    case ::c10d::OpType::ALLREDUCE_COALESCED: return "gloo:allreduce_coalesced";
    case ::c10d::OpType::ALLGATHER_COALESCED: return "gloo:ALLGATHER_coalesced";
    case ::c10d::OpType::_ALLREDUCE_SPARSE: return "gloo:all_reduce";
    default: return "gloo" + std::string(title).substr(std::string("customccl").size());
  }
}

std::vector<FlightLog::Shape> shapes_of(at::TensorList tensors) {
  std::vector<FlightLog::Shape> shapes;
  for (const at::Tensor& tensor : tensors) shapes.push_back({tensor.sizes().vec(), tensor.scalar_type()});
  return shapes;
}

}  // namespace

void CustomBackend::begin_record(at::RecordFunction& record, Label label, at::TensorList inputs) {
  const std::vector<c10::IValue> values(inputs.begin(), inputs.end());
  record._setAsync();  // torch's own Works are asynchronous events, and its tests expect one
  record.before(label.title, c10::ArrayRef<const c10::IValue>(values.data(), values.size()));
}

std::uint64_t CustomBackend::log_flight(const Call& call, std::uint64_t sequence, Label label, const Held& held) {
  FlightLog::Entry entry;
  entry.group = flight_group_;
  entry.group_name = getGroupUid();
  entry.group_description = getGroupDesc();
  entry.name = flight_name(label.type, label.title, getRank(), call.peer);
  entry.sequence = sequence;
  entry.p2p = is_p2p(label.type);
  entry.inputs = shapes_of(held.inputs);
  entry.outputs = shapes_of(held.outputs);
  entry.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(group_->limit_of(call));
  return FlightLog::get().begin(std::move(entry), group_->spec().global_ranks);
}

Audience CustomBackend::watch(const TensorTask& task, Label label, const Held& held, TimeoutExtensions::Grant grant) {
  std::optional<std::uint64_t> flight;
  if (logs_flights_) flight = log_flight(task.call(), task.operation().sequence, label, held);
  const std::uint64_t key = success_hooks_->any() ? SuccessHooks::next_key() : 0;
  return {[flight, key, grant = std::move(grant), extensions = extensions_, aborts = abort_hooks_,
           successes = success_hooks_](const Status* failure, Nanos took) {
            extensions->end(grant);
            if (flight) FlightLog::get().end(*flight, failure == nullptr, took);
            if (failure == nullptr) return successes->run(key, took);
            if (failure->code != Code::kInvalidArgument) aborts->run();
          },
          key};
}

void CustomBackend::extend(Call& call, const TimeoutExtensions::Grant& grant) const {
  call.timeout = group_->limit_of(call) + grant.extra;
}

void CustomBackend::with_comms(Label label, const Held& held, bool async, const std::function<void()>& body) {
  with_comms_record(
      {group_->spec(), getGroupUid(), getGroupDesc(), static_cast<std::int64_t>(group_->sequence() + 1),
       is_p2p(label.type), async, label.type, held.inputs, held.outputs, held.input_splits, held.output_splits},
      body);
}

CustomBackend::WorkPtr CustomBackend::run_observed(Call& call, const std::function<void()>& body, Label label,
                                                   const Held& held, std::optional<at::StepCallbacks> callbacks,
                                                   at::TensorList results) {
  if (!callbacks) return run_watched(call, body, label, held, results);
  // What the base class does for asynchronous Works: one profiler event, with the shapes of the inputs.
  at::RecordFunction record(std::move(*callbacks));
  WorkPtr work;
  with_comms(label, held, false, [&] {
    begin_record(record, label, held.inputs);
    work = run_watched(call, body, label, held, results);
    record.end();
  });
  return work;
}

CustomBackend::WorkPtr CustomBackend::run_watched(Call& call, const std::function<void()>& body, Label label,
                                                  const Held& held, at::TensorList results) {
  const TimeoutExtensions::Grant grant = watched() ? extensions_->grant() : TimeoutExtensions::Grant();
  if (grant.extra.count() > 0) extend(call, grant);
  std::optional<std::uint64_t> flight;
  if (logs_flights_) flight = log_flight(call, group_->sequence() + 1, label, held);
  const Clock::time_point begin = Clock::now();
  const auto end = [&](bool ok) {
    extensions_->end(grant);
    if (flight) FlightLog::get().end(*flight, ok, Clock::now() - begin);
  };
  try {
    body();
  } catch (...) {
    end(false);
    throw;
  }
  end(true);
  return report_success(label.type, begin, results);
}

CustomBackend::WorkPtr CustomBackend::report_success(::c10d::OpType type, Clock::time_point begin,
                                                     at::TensorList outputs) {
  if (hook_->active()) hook_->call(type, group_->sequence(), begin);
  const bool heard = success_hooks_->any();
  if (!heard && outputs.empty()) return ended_work(type);
  const Nanos took = Clock::now() - begin;
  const std::uint64_t key = heard ? SuccessHooks::next_key() : 0;
  if (heard) success_hooks_->run(key, took);
  return c10::make_intrusive<DoneWork>(type, key, took, outputs);
}

}  // namespace customccl::torch_shim
