#include "c10d/work.h"

#include <ATen/core/jit_type.h>

#include <utility>

#include "c10d/errors.h"

namespace customccl::torch_shim {

namespace {

c10::intrusive_ptr<c10::ivalue::Future> make_future() {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
}

}  // namespace

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
  state->end_profile_ = std::move(end_profile);
  state->watcher_ = std::move(watcher);
  for (const auto& task : state->tasks_) {
    task->when_done([state] { state->one_done(); });
  }
}

void WorkState::one_done() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  end_profile();
  if (watcher_) watcher_(failure() == nullptr, took());
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (!ended_) future = future_;
    ended_ = true;
  }
  if (future) complete(*future);  // runs the user's callbacks: no lock may be held
}

// By whoever comes first, the thread that completes the last task or one that has waited: a profiler that stops after wait() must
// find its event ended. Runs no code of the user.
void WorkState::end_profile() {
  const std::lock_guard lock(profile_mutex_);
  if (const auto end = std::exchange(end_profile_, nullptr)) end();
}

void WorkState::complete(c10::ivalue::Future& future) const {
  if (const Status* status = failure(); status != nullptr) {
    future.setError(to_exception(*status));
  } else {
    future.markCompleted(c10::IValue(outputs_));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> WorkState::future() {
  const std::lock_guard lock(mutex_);
  if (!future_) {
    future_ = make_future();
    // The thread that completes the tasks may not have come to this Work yet. Nobody can have added a callback.
    if (ended_ || done()) {
      ended_ = true;
      complete(*future_);
    }
  }
  return future_;
}

void WorkState::settle() {
  end_profile();
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
  }
  if (future) future->wait();
}

Nanos WorkState::took() const {
  Clock::time_point end = begin_;
  for (const auto& task : tasks_) end = std::max(end, task->done() ? task->ended() : begin_);
  return end - begin_;
}

TaskWork::TaskWork(std::shared_ptr<Communicator> group, std::vector<std::shared_ptr<TensorTask>> tasks,
                   ::c10d::OpType type, const char* title, const std::vector<at::Tensor>& inputs,
                   std::vector<at::Tensor> outputs, WorkState::Watcher watcher)
    : Work(group->spec().rank, type, title, inputs),
      group_(std::move(group)),
      state_(std::make_shared<WorkState>(std::move(tasks), std::move(outputs))) {
  WorkState::follow(state_, std::move(recordFunctionEndCallback_), std::move(watcher));
}

bool TaskWork::isCompleted() {
  bool done = true;
  for (const auto& task : state_->tasks()) done = group_->poll(*task) && done;
  if (done) state_->settle();
  return done;
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
  state_->settle();
  Work::synchronize();  // takes this Work out of the registry of works that functional collectives wait for
  if (const Status* failure = state_->failure(); failure != nullptr) throw_status(*failure);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> DoneWork::getFuture() {
  auto future = make_future();
  future->markCompleted(c10::IValue(std::vector<at::Tensor>{}));
  return future;
}

}  // namespace customccl::torch_shim
