#include "core/collective_lane.h"

#include "core/communicator.h"

namespace customccl {

void CollectiveLane::suspend() {
  const std::lock_guard lock(mutex_);
  if (!closed_) engine_.suspend();
}

Status CollectiveLane::resume() {
  const std::lock_guard lock(mutex_);
  return closed_ ? Status{} : engine_.resume();
}

std::size_t CollectiveLane::staging_bytes() {
  const std::lock_guard lock(mutex_);
  return closed_ ? 0 : engine_.staging_bytes();
}

Lane::Begun CollectiveLane::begin(Operation& op, int looks, Status& failure) {
  mutex_.lock();
  if (!free()) [[unlikely]]
    return Begun::kNot;
  count(1);
  op.sequence = take_number();
  Step step = Step::kFailed;
  const auto over = [&] {
    do {
      step = engine_.advance(op, failure);
    } while (step == Step::kMoved);
    return step != Step::kWaiting;
  };
  try {
    step = engine_.start(op, failure);
    if (step == Step::kMoved) [[likely]]
      look_until(looks, over);
  } catch (const std::exception& error) {
    step = Step::kFailed;
    failure = failure_of(error);
  }
  if (step != Step::kDone) [[unlikely]]
    return Begun::kUnderWay;
  count(-1);
  mutex_.unlock();
  return Begun::kOver;
}

void CollectiveLane::continue_as(Task& task, Begun begun, const Operation& op, int looks, Status&& failure,
                                 std::shared_ptr<Task> keep_alive) {
  if (begun == Begun::kNot) return post_locked(task, looks, std::move(keep_alive));
  task.take_over(op);
  keep(task, std::move(keep_alive));
  queue(task);
  head_started_ = true;
  Finished finished;
  finished.failure = std::move(failure);
  leave(finished);
}

void CollectiveLane::accept(Task& task, Finished&) {
  task.operation().sequence = take_number();
  queue(task);
}

void CollectiveLane::queue(Task& task) {
  next_of(task) = nullptr;
  (head_ == nullptr ? head_ : next_of(*tail_)) = &task;
  tail_ = &task;
}

bool CollectiveLane::advance(Finished& finished) {
  bool moved = false;
  while (head_ != nullptr) {
    Operation& op = head_->operation();
    const bool started = std::exchange(head_started_, true);  // also if it fails to
    const Step step = started ? engine_.advance(op, finished.failure) : engine_.start(op, finished.failure);
    if (step == Step::kWaiting) return moved;
    moved = true;
    if (step == Step::kFailed) return true;  // it ends with the others
    if (step == Step::kDone) finish(pop(), finished);
  }
  return moved;
}

Task& CollectiveLane::pop() {
  Task& task = *head_;
  head_ = next_of(task);
  head_started_ = false;
  return task;
}

Status CollectiveLane::find_failure(Finished& finished) {
  Status status = believe([&] { return diagnose(); },
                          [&] {
                            advance(finished);
                            return finished.failure.ok();
                          });
  return finished.failure.ok() ? status : finished.failure;
}

Status CollectiveLane::diagnose() const {
  if (head_ == nullptr) return {};
  if (Status status = engine_.diagnose(head_->operation()); !status.ok()) return status;
  for (Task* task = head_; task != nullptr; task = next_of(*task)) {
    if (task->deadline().passed()) return group_.timed_out(engine_.awaited(head_->operation()));
  }
  return {};
}

void CollectiveLane::drop_all(const Status& why, Finished& finished) noexcept {
  if (head_started_) {
    engine_.abandon();
    engine_.withdraw_tensors(head_->operation());
  }
  while (head_ != nullptr) {
    Status status = explain(*head_, why);
    fail(pop(), std::move(status), finished);
  }
}

void CollectiveLane::end_group(const Status& why) { group_.fail(why); }

Doorbell& CollectiveLane::bell() const { return group_.bell(); }

std::vector<int> CollectiveLane::awaited_by(const Task& task) {
  return &task == head_ ? engine_.awaited(task.operation()) : std::vector<int>();
}

Status CollectiveLane::refusal(const Task& task) const noexcept { return group_.refuse(task); }

Status CollectiveLane::explain(const Task& task, const Status& why) const noexcept { return group_.explain(task, why); }

}  // namespace customccl
