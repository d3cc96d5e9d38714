#include "core/collective_lane.h"

#include "core/communicator.h"

namespace customccl {

void CollectiveLane::accept(Task& task, Finished&) {
  const std::uint64_t number = next_.load(std::memory_order_relaxed);
  next_.store(number + 1, std::memory_order_relaxed);
  task.operation().sequence = number;
  next_of(task) = nullptr;
  (head_ == nullptr ? head_ : next_of(*tail_)) = &task;
  tail_ = &task;
}

bool CollectiveLane::advance(Finished& finished) {
  bool moved = false;
  while (head_ != nullptr && finished.failure.ok()) {
    Operation& op = head_->operation();
    Status status;
    Step step = Step::kMoved;
    if (head_started_) {
      status = engine_.advance(op, step);
    } else {
      status = engine_.start(op);
      head_started_ = true;
    }
    if (!status.ok()) {
      finished.failure = std::move(status);  // ends the head too, with the others
      return true;
    }
    if (step == Step::kWaiting) return moved;
    moved = true;
    if (step == Step::kDone) pop({}, finished);
  }
  return moved;
}

void CollectiveLane::pop(Status status, Finished& finished) {
  Task& task = *head_;
  head_ = next_of(task);
  head_started_ = false;
  finish(task, std::move(status), finished);
}

Status CollectiveLane::find_failure(Finished&) {
  if (head_ == nullptr) return {};
  if (Status status = engine_.diagnose(head_->operation()); !status.ok()) return status;
  if (!head_->deadline().passed()) return {};
  return group_.timed_out(engine_.awaited(head_->operation()));
}

void CollectiveLane::drop_all(const Status& why, Finished& finished) {
  while (head_ != nullptr) pop(group_.explain(*head_, why), finished);
}

void CollectiveLane::end_group(const Status& why) { group_.fail(why); }

std::vector<int> CollectiveLane::awaited_by(const Task& task) {
  return &task == head_ ? engine_.awaited(task.operation()) : std::vector<int>();
}

Status CollectiveLane::refusal(const Task& task) { return group_.refuse(task); }

}  // namespace customccl
