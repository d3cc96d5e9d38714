#include "c10d/work.h"

#include <ATen/core/jit_type.h>

#include <utility>

#include "c10d/errors.h"
#include "c10d/python_lock.h"
#include "platform/settings.h"

namespace customccl::torch_shim {

namespace {

FuturePtr make_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

FuturePtr make_result_future() { return c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get()); }

c10::IValue result_value(Code code) {
  using Result = ::c10d::WorkResult;
  const Result result = code == Code::kOk        ? Result::SUCCESS
                        : code == Code::kTimeout ? Result::TIMEOUT
                                                 : Result::COMM_ERROR;
  return {static_cast<std::int64_t>(result)};
}

}  // namespace

TensorTask::Memory TensorTask::memory_of(at::TensorList inputs, at::TensorList outputs) {
  Memory all;
  for (const at::Tensor& each : inputs) all.push_back(each.storage());
  if (outputs.data() == inputs.data()) return all;
  for (const at::Tensor& each : outputs) all.push_back(each.storage());
  return all;
}

TensorTask::TensorTask(PreparedCall&& prepared, Nanos limit, at::TensorList inputs, at::TensorList outputs,
                       Clock::time_point begun)
    : Task(prepared.call(), limit), kept_(memory_of(inputs, outputs)), prepared_(std::move(prepared)), begun_(begun) {
  prepared_.attach(call());
}

void TensorTask::when_done(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!fired_) {
      then_.push_back(std::move(then));
      return;
    }
  }
  then();
}

void TensorTask::completed() {
  std::vector<std::function<void()>> then;
  {
    const std::lock_guard lock(mutex_);
    fired_ = true;
    then = std::move(then_);
  }
  for (const auto& each : then) each();
}

bool WorkState::done() const {
  for (const auto& task : tasks_) {
    if (!task->done()) return false;
  }
  return true;
}

const Status* WorkState::failure() const {
  for (const auto& task : tasks_) {
    if (!task->status().ok()) return &task->status();
  }
  return nullptr;
}

void WorkState::follow(const std::shared_ptr<WorkState>& state, std::function<void()> end_profile, Watcher watcher) {
  if (end_profile || watcher) state->telling_.store(kUntold, std::memory_order_relaxed);
  state->end_profile_ = std::move(end_profile);
  state->watcher_ = std::move(watcher);
  for (const auto& task : state->tasks_) {
    task->when_done([state] { state->one_done(); });
  }
}

// Not patient: this thread may hold Python's lock, which another one that is telling may want. That one goes on to the futures.
void WorkState::one_done() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) settle(false);
}

// By whoever comes first, the thread that completes the last task or one that has waited: a profiler or a dump of the flight recorder
// that comes after wait() must find the operation ended.
bool WorkState::tell(bool patient) {
  std::uint32_t stage = kUntold;
  if (telling_.compare_exchange_strong(stage, kBeingTold, std::memory_order_acq_rel)) {
    teller_.store(std::this_thread::get_id());
    if (const auto end = std::exchange(end_profile_, nullptr)) end();
    if (const auto watcher = std::exchange(watcher_, nullptr)) watcher(failure(), took());
    telling_.store(kTold, std::memory_order_release);
    telling_.notify_all();
    return true;
  }
  // A watcher may ask about the Work that it is told of.
  if (stage == kTold || teller_.load() == std::this_thread::get_id()) return true;
  if (patient) telling_.wait(kBeingTold, std::memory_order_acquire);
  return patient;
}

void WorkState::fulfil(const Promise& promise, c10::ivalue::Future& future) const {
  const Status* status = failure();
  if (&promise == &result_) {
    future.markCompleted(result_value(status == nullptr ? Code::kOk : status->code));
  } else if (status != nullptr) {
    future.setError(to_exception(*status));
  } else {
    future.markCompleted(c10::IValue(outputs_));
  }
}

FuturePtr WorkState::future() { return ask(future_, make_future); }

FuturePtr WorkState::result_future() { return ask(result_, make_result_future); }

FuturePtr WorkState::ask(Promise& promise, FuturePtr (*make)()) {
  if (done()) settle(false);
  const std::lock_guard lock(mutex_);
  if (!promise.future) {
    promise.future = make();
    promise.claimed = over();
    if (promise.claimed) fulfil(promise, *promise.future);  // nobody can have added a callback
  }
  return promise.future;
}

bool WorkState::keep(Promise& promise, bool patient) {
  FuturePtr future;
  bool claimed = true;
  {
    const std::lock_guard lock(mutex_);
    future = promise.future;
    if (!future) return true;
    claimed = std::exchange(promise.claimed, true);
  }
  // Here run the user's callbacks: no lock may be held.
  if (!claimed) fulfil(promise, *future);
  if (patient) future->wait();
  return future->completed();
}

// Whoever has told goes on to the futures, also those that were made meanwhile. So each gets its value, whoever comes by impatiently.
bool WorkState::settle(bool patient) {
  if (!tell(patient)) return false;
  const bool result_kept = keep(result_, patient);
  return keep(future_, patient) && result_kept;
}

Nanos WorkState::took() const {
  const Clock::time_point begin = tasks_.front()->begun();
  Clock::time_point end = begin;
  for (const auto& task : tasks_) end = std::max(end, task->done() ? task->ended() : begin);
  return end - begin;
}

TaskWork::TaskWork(std::shared_ptr<Communicator> group, std::vector<std::shared_ptr<TensorTask>> tasks, Label label,
                   const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs, Audience audience)
    : Work(group->spec().rank, label.type, label.title, inputs),
      group_(std::move(group)),
      state_(std::make_shared<WorkState>(std::move(tasks), std::move(outputs))),
      key_(audience.key),
      timed_(audience.timed) {
  WorkState::follow(state_, std::move(recordFunctionEndCallback_), std::move(audience.watcher));
}

bool TaskWork::isCompleted() {
  bool done = true;
  for (const auto& task : state_->tasks()) done = group_->poll(*task) && done;
  // Not patient: the caller may hold Python's lock, which a watcher on another thread may want.
  return done && state_->settle(false);
}

std::exception_ptr TaskWork::exception() const {
  const Status* failure = state_->done() ? state_->failure() : nullptr;
  return failure == nullptr ? nullptr : to_exception(*failure);
}

bool TaskWork::wait(std::chrono::milliseconds timeout) {
  std::optional<Deadline> limit;  // for all of them
  if (timeout.count() > 0) limit.emplace(to_limit(timeout));
  for (const auto& task : state_->tasks()) {
    if (group_->wait(*task, limit ? std::max(limit->left(), Nanos(1)) : Nanos(0))) continue;
    stay_if_python_ends();
    C10_THROW_ERROR(DistBackendError, group_->still_waiting(*task, to_limit(timeout)));
  }
  stay_if_python_ends();
  state_->settle(true);
  Work::synchronize();  // takes this Work out of the registry of works that functional collectives wait for
  if (const Status* failure = state_->failure(); failure != nullptr) throw_status(*failure);
  return true;
}

// A wait for a future drives nothing. Where no progress thread does, an operation is over, or has failed in time, when its future is there.
// A forked child has none for what it inherited, and fails it here.
void TaskWork::carry_out_for_future() const {
  if ((settings().progress_thread && !group_->inherited()) || state_->done()) return;
  // Python asks with its lock held, which a rank that is waited for may need: it may be a thread of this process.
  const WithoutPythonLock without_lock;
  for (const auto& task : state_->tasks()) group_->wait(*task, kNoTimeout);
}

std::chrono::milliseconds TaskWork::getTimeout() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(state_->tasks().front()->deadline().limit());
}

FuturePtr DoneWork::getFuture() {
  FuturePtr future = make_future();
  future->markCompleted(c10::IValue(result()));
  return future;
}

FuturePtr DoneWork::getFutureResult() {
  FuturePtr future = make_result_future();
  future->markCompleted(result_value(Code::kOk));
  return future;
}

}  // namespace customccl::torch_shim
