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

[[gnu::hot]] void CollectiveLane::accept(Task& task, Finished&) {
  const std::uint64_t number = next_.load(std::memory_order_relaxed);
  next_.store(number + 1, std::memory_order_relaxed);
  task.operation().sequence = number;
  next_of(task) = nullptr;
  (head_ == nullptr ? head_ : next_of(*tail_)) = &task;
  tail_ = &task;
}

[[gnu::hot]] bool CollectiveLane::advance(Finished& finished) {
  bool moved = false;
  while (head_ != nullptr) {
    Operation& op = head_->operation();
    const Step step = head_started_ ? engine_.advance(op, finished.failure) : engine_.start(op, finished.failure);
    head_started_ = true;
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
  if (head_ == nullptr) return {};
  if (!engine_.diagnose(head_->operation()).ok()) {
    // What a peer published before it died or left still counts: take that first, then see whether anything is missing.
    advance(finished);
    if (!finished.failure.ok()) return finished.failure;
    if (head_ == nullptr) return {};
    if (Status status = engine_.diagnose(head_->operation()); !status.ok()) return status;
  }
  for (Task* task = head_; task != nullptr; task = next_of(*task)) {
    if (task->deadline().passed()) return group_.timed_out(engine_.awaited(head_->operation()));
  }
  return {};
}

void CollectiveLane::drop_all(const Status& why, Finished& finished) {
  while (head_ != nullptr) {
    Status status = group_.explain(*head_, why);
    fail(pop(), std::move(status), finished);
  }
}

void CollectiveLane::end_group(const Status& why) { group_.fail(why); }

std::vector<int> CollectiveLane::awaited_by(const Task& task) {
  return &task == head_ ? engine_.awaited(task.operation()) : std::vector<int>();
}

void CollectiveLane::replace(Task&, Task& by) { head_ = tail_ = &by; }

Status CollectiveLane::refusal(const Task& task) { return group_.refuse(task); }

}  // namespace customccl
