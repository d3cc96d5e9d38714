#include "c10d/work.h"

#include <ATen/core/jit_type.h>

#include <utility>

#include "c10d/errors.h"

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

TensorTask::TensorTask(PreparedCall&& prepared, Nanos limit, at::TensorList inputs, at::TensorList outputs,
                       Clock::time_point begun)
    : Task(prepared.call(), limit), prepared_(std::move(prepared)), begun_(begun) {
  kept_.append(inputs.begin(), inputs.end());
  if (outputs.data() != inputs.data()) kept_.append(outputs.begin(), outputs.end());
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

void WorkState::one_done() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  tell(true);
  FuturePtr future;
  FuturePtr result;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
    result = result_;
  }
  // Here run the user's callbacks: no lock may be held.
  if (result && !result->completed()) complete_result(*result);
  if (future && !future->completed()) complete(*future);
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

void WorkState::complete(c10::ivalue::Future& future) const {
  if (const Status* status = failure(); status != nullptr) {
    future.setError(to_exception(*status));
  } else {
    future.markCompleted(c10::IValue(outputs_));
  }
}

void WorkState::complete_result(c10::ivalue::Future& future) const {
  const Status* status = failure();
  future.markCompleted(result_value(status == nullptr ? Code::kOk : status->code));
}

FuturePtr WorkState::future() {
  if (done()) tell(false);
  const std::lock_guard lock(mutex_);
  if (!future_) {
    future_ = make_future();
    if (over()) complete(*future_);  // nobody can have added a callback
  }
  return future_;
}

FuturePtr WorkState::result_future() {
  if (done()) tell(false);
  const std::lock_guard lock(mutex_);
  if (!result_) {
    result_ = make_result_future();
    if (over()) complete_result(*result_);
  }
  return result_;
}

bool WorkState::settle(bool patient) {
  if (!tell(patient)) return false;
  FuturePtr future;
  FuturePtr result;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
    result = result_;
  }
  for (const FuturePtr& each : {future, result}) {
    if (each) each->wait();
  }
  return true;
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
  for (const auto& task : state_->tasks()) {
    if (group_->wait(*task, timeout)) continue;
    C10_THROW_ERROR(DistBackendError, group_->still_waiting(*task, timeout));
  }
  state_->settle(true);
  Work::synchronize();  // takes this Work out of the registry of works that functional collectives wait for
  if (const Status* failure = state_->failure(); failure != nullptr) throw_status(*failure);
  return true;
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
