#include "core/communicator.h"

#include "base/attempt.h"
#include "core/explanations.h"
#include "core/message_lane.h"
#include "core/progress.h"
#include "engines/self/self_engine.h"
#include "engines/shm/shm_engine.h"
#include "host/host_arena.h"
#include "platform/log.h"
#include "platform/process.h"

namespace customccl {

namespace {

// For a group of one, which has no arena; never rung by others.
Doorbell& lonely_bell() {
  static auto& bell = *new Doorbell();
  return bell;
}

// A task for a call that has begun and holds its lane's lock. Where there is no memory for one, the call is carried out first, as if it
// were none that returns before its end: peers have seen it begin.
template <class CarryOut>
std::shared_ptr<Task> make_or(TaskMaker& maker, CarryOut&& carry_out) {
  try {
    return maker.make();
  } catch (...) {
    [[maybe_unused]] const Status status = carry_out();
    throw;
  }
}

}  // namespace

Communicator::Communicator(GroupSpec spec, std::unique_ptr<Engine> engine, std::uint64_t first_number,
                           bool processor_each, Doorbell& bell)
    : spec_(std::move(spec)),
      generation_(fork_generation()),
      engine_(std::move(engine)),
      collectives_(std::make_unique<CollectiveLane>(*this, *engine_, first_number)),
      messages_(std::make_unique<MessageLane>(*this, engine_->packet_port(), spec_.rank, spec_.size)),
      bell_(bell),
      timeout_(spec_.timeout.count()) {
  spin_.allow(processor_each);
}

Status Communicator::create(const GroupSpec& spec, Bootstrap& bootstrap, std::shared_ptr<Communicator>& out) {
  watch_for_fork();
  if (spec.size == 1) {
    out.reset(new Communicator(spec, std::make_unique<SelfEngine>(), 1, true, lonely_bell()));
    return {};
  }
  const Deadline deadline(spec.timeout);
  std::unique_ptr<shm::Members> members;
  Status status = shm::Members::meet(spec, bootstrap, deadline, members);
  if (!status.ok()) return setup_error(spec, deadline, status);
  HostArena* arena = nullptr;
  if (status = HostArena::get(arena); !status.ok()) return status;
  const bool processor_each = members->processor_each();
  auto engine = std::make_unique<shm::ShmEngine>(std::move(members));
  out.reset(new Communicator(spec, std::move(engine), 0, processor_each, arena->header().bell));
  // Collective number 0 of every group: nobody uses it before everybody has mapped everybody.
  Call ready;
  ready.timeout = std::max<Nanos>(deadline.left(), std::chrono::milliseconds(1));
  if (status = out->run(ready); status.ok()) return status;
  status = setup_error(spec, deadline, out->health());
  out.reset();
  return status;
}

std::shared_ptr<Communicator> Communicator::unconnected(const GroupSpec& spec, const std::string& why) {
  watch_for_fork();
  std::shared_ptr<Communicator> group(new Communicator(spec, std::make_unique<SelfEngine>(), 1, true, lonely_bell()));
  group->unconnected_ = why;
  group->close(why);
  return group;
}

Communicator::~Communicator() {
  close();
  if (!inherited()) return;
  // As a thread of the parent's may have left them within a change.
  [[maybe_unused]] const auto* collectives = collectives_.release();
  [[maybe_unused]] const auto* messages = messages_.release();
}

Lane& Communicator::lane_of(const Call& call) const {
  return is_message(call.op) ? static_cast<Lane&>(*messages_) : *collectives_;
}

Status Communicator::run(const Call& call, std::int32_t* source) {
  if (inherited()) return refuse_forked(call);
  if (is_message(call.op)) return run_message(call, source);
  Operation op{.call = &call};
  Status failure;
  const Lane::Begun begun = collectives_->begin(op, looks(), failure);
  if (begun != Lane::Begun::kOver) [[unlikely]]
    failure = run_on(op, begun, std::move(failure));
  return failure;
}

Status Communicator::refuse_forked(const Call& call) const { return refuse(Task(call, limit_of(call))); }

Status Communicator::run_message(const Call& call, std::int32_t* source) {
  Ended ended;
  const Lane::Begun begun = messages_->begin(call, looks(), ended);
  if (begun == Lane::Begun::kOver) {
    if (source != nullptr) *source = ended.source;
    return {};
  }
  return run_message_on(call, begun, source);
}

Status Communicator::run_message_on(const Call& call, Lane::Begun begun, std::int32_t* source) {
  Task task(call, limit_of(call));
  messages_->continue_as(task, begun, nullptr);
  if (!task.done()) wait_for(*messages_, task);
  if (source != nullptr && task.status().ok()) *source = task.source();
  return std::move(task).status();
}

Status Communicator::run_on(const Operation& op, Lane::Begun begun, Status&& failure) {
  Task task(*op.call, limit_of(*op.call));
  collectives_->continue_as(task, begun, op, looks(), std::move(failure), nullptr);
  if (!task.done()) wait_for(*collectives_, task);
  return std::move(task).status();
}

bool Communicator::begin(const Call& call, Ended& ended, TaskMaker& maker) {
  if (inherited()) {
    post(maker.make());
    return false;
  }
  if (is_message(call.op)) {
    const Lane::Begun begun = messages_->begin(call, looks(), ended);
    if (begun == Lane::Begun::kOver) return true;
    const auto carry_out = [&] { return run_message_on(call, begun, nullptr); };
    const std::shared_ptr<Task> task = make_or(maker, carry_out);
    messages_->continue_as(*task, begun, task);
    look_after(*task, *messages_);
    return false;
  }
  Operation op{.call = &call};
  Status failure;
  const Lane::Begun begun = collectives_->begin(op, looks(), failure);
  ended.sequence = op.sequence;
  if (begun == Lane::Begun::kOver) return true;
  const auto carry_out = [&] { return run_on(op, begun, std::move(failure)); };
  const std::shared_ptr<Task> task = make_or(maker, carry_out);
  collectives_->continue_as(*task, begun, op, looks(), std::move(failure), task);
  look_after(*task, *collectives_);
  return false;
}

// Looks at a posted operation before leaving it to a wait or to the progress thread.
int Communicator::looks() const {
  constexpr int kLooks = 128;  // some 5 us
  return spin_.now().count() > 0 ? kLooks : 1;
}

void Communicator::wait_for(Lane& lane, Task& task, const Deadline* limit) {
  Nanos told{0};
  SpinBudget none;
  wait_until(
      lane.crowded() ? none : spin_, bell_,
      [&] { return task.done() || inherited() || (limit != nullptr && limit->passed()); },
      [&](bool sleeps) { return lane.drive(&task, sleeps); }, [&] { drive_slowly(lane, task, told); });
  if (inherited()) lane.abandon(task);  // a callback forked meanwhile, as everywhere below
}

void Communicator::post(const std::shared_ptr<Task>& task) {
  Lane& lane = lane_of(task->call());
  if (inherited()) return lane.reject(*task, task);
  lane.post(*task, looks(), task);
  look_after(*task, lane);
}

void Communicator::look_after(const Task& task, Lane& lane) {
  if (!task.done() && !inherited()) Progress::get().watch(std::shared_ptr<Lane>(shared_from_this(), &lane));
}

bool Communicator::wait(Task& task, Nanos limit) {
  if (task.done()) return true;
  Lane& lane = lane_of(task.call());
  if (inherited()) return lane.abandon(task), true;
  if (limit.count() <= 0) {
    wait_for(lane, task);
    return true;
  }
  const Deadline deadline(limit);
  wait_for(lane, task, &deadline);
  return task.done();
}

bool Communicator::poll(Task& task) {
  if (task.done()) return true;
  Lane& lane = lane_of(task.call());
  if (inherited()) return lane.abandon(task), true;
  lane.drive();
  if (!task.done()) lane.inspect();
  return task.done();
}

void Communicator::drive_slowly(Lane& lane, const Task& task, Nanos& told) noexcept {
  lane.inspect();
  // Without memory there is a next time; an exception would unwind a stack on which the task may lie.
  attempt([&] {
    Progress::get().drive_others(lane);
    if (log_enabled(LogLevel::kDebug) && !task.done()) log_waiting(lane, task, told);
  });
}

void Communicator::abort(std::string_view why) noexcept {
  Status aborted;
  aborted.code = Code::kAborted;
  aborted.culprit = global_rank(spec_.rank);
  attempt([&] {
    std::string text = "abort() was called on rank " + std::to_string(aborted.culprit);
    if (!why.empty()) text.append(": ").append(why);
    aborted = {Code::kAborted, std::move(text), aborted.culprit};
  });
  fail(aborted);
}

void Communicator::close(std::string_view why) noexcept {
  Status told(Code::kClosed, "it was closed");  // short enough to need no memory
  attempt([&] { told = {Code::kClosed, std::string(why)}; });
  end(told, true);
}

void Communicator::fail(const Status& why) { end(why, false); }

void Communicator::end(const Status& why, bool leave) {
  // The parent's group: its memory is not mapped here, and its locks may be held by threads that do not exist here.
  if (inherited()) {
    [[maybe_unused]] Engine* parents = engine_.release();
    return;
  }
  {
    const std::lock_guard lock(failure_mutex_);
    if (engine_ == nullptr) return;
    if (!leave && failed_.load(std::memory_order_relaxed)) return;
    if (!failed_.load(std::memory_order_relaxed)) failure_ = why;
    failed_.store(true, std::memory_order_release);
    if (!leave) engine_->fail(why);
  }
  collectives_->close(why);
  if (inherited()) return;
  messages_->close(why);
  if (!leave || inherited()) return;
  // No lane touches the engine any more. Its destructor says goodbye to the peers.
  const std::lock_guard lock(failure_mutex_);
  engine_.reset();
}

Status Communicator::health() const {
  if (inherited()) return {Code::kClosed, "this process was forked from the one that made the group"};
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

Code Communicator::gone(int member) const {
  if (inherited()) return Code::kOk;
  const std::lock_guard lock(failure_mutex_);
  return engine_ != nullptr ? engine_->gone(member) : Code::kOk;
}

int Communicator::global_rank(int member) const { return spec_.global_ranks[static_cast<std::size_t>(member)]; }

}  // namespace customccl
