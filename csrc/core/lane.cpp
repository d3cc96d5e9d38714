#include "core/lane.h"

#include "base/attempt.h"
#include "core/callbacks.h"
#include "core/progress.h"
#include "platform/log.h"
#include "platform/once_per_process.h"

namespace customccl {

void Finished::deliver(Doorbell* bell) noexcept {
  if (bell != nullptr) bell->ring(true);
  while (first_ != nullptr) {
    Task& task = *first_;
    first_ = task.next_;
    deliver(std::exchange(task.keep_alive_, nullptr));
  }
}

void Finished::deliver(std::shared_ptr<Task> task) noexcept {
  if (!Progress::is_this_thread()) return Callbacks::tell(*task);
  if (!attempt([&] { Callbacks::get().run(std::move(task)); }))
    log(LogLevel::kError, "what was to be told of the end of an operation was not: there was no memory for it");
}

// Drives while anything moves. True when looking again is of no use: the task is done or the group failed.
bool Lane::advance_until(const Task& task, Finished& finished) {
  while (advance(finished) && !task.done() && finished.failure.ok()) {
  }
  return task.done() || !finished.failure.ok();
}

bool Lane::drive_locked(const Task* own) {
  Finished finished(own);
  bool moved = false;
  protect(finished, [&] { moved = running() && advance(finished); });
  leave(finished);
  return moved;
}

void Lane::post_locked(Task& task, int looks, std::shared_ptr<Task> keep_alive) {
  Finished finished(&task);
  count(1);
  if (closed_ || (paused_ && !task.pauses())) {
    fail(task, refusal(task), finished);
  } else {
    paused_ = task.pauses();  // here, so that no other thread's task gets in between
    const bool sound = protect(finished, [&] {
      accept(task, finished);
      if (running() && !task.done()) look_until(looks, [&] { return advance_until(task, finished); });
    });
    if (!sound && !task.done()) fail(task, explain(task, finished.failure), finished);
  }
  const bool over = task.done();
  if (!over) {
    keep(task, std::move(keep_alive));
  } else if (keep_alive != nullptr) {
    task.ended_ = Clock::now();
  }
  leave(finished);
  if (over && keep_alive != nullptr) Finished::deliver(std::move(keep_alive));
}

void Lane::reject(Task& task, std::shared_ptr<Task> keep_alive) {
  Finished finished;
  task.keep_alive_ = std::move(keep_alive);
  count(1);
  fail(task, refusal(task), finished);
  finished.deliver(nullptr);  // the group's is the parent's
}

bool Lane::withdraw(Task& task, Status why) {
  if (inherited()) return false;
  mutex_.lock();
  Finished finished(&task);
  const bool taken = !task.done() && running() && take_back(task);
  if (taken) fail(task, std::move(why), finished);
  leave(finished);
  return taken;
}

void Lane::inspect() {
  if (inherited() || !busy() || !mutex_.try_lock()) return;
  Finished finished;
  protect(finished, [&] {
    if (running()) finished.failure = find_failure(finished);
  });
  leave(finished);
}

void Lane::abandon(Task& task) {
  Finished finished;
  {
    const std::lock_guard one_by_one(once_per_process<std::mutex>());
    if (task.done()) return;
    task.held_before_ = task.held_after_ = nullptr;
    count(1);
    fail(task, refusal(task), finished);
  }
  finished.deliver(nullptr);  // a callback may wait for another one
}

void Lane::close(const Status& why) noexcept {
  mutex_.lock();
  Finished finished;
  closed_ = true;
  drop_all(why, finished);
  leave(finished);
}

Status Lane::failure_of(const std::exception& error) {
  Status told(Code::kSystem, "no memory");  // short enough to need none
  attempt([&] { told = {Code::kSystem, std::string("this process has no memory for it (") + error.what() + ")"}; });
  return told;
}

void Lane::give_up(const std::exception& error, Finished& finished) {
  finished.failure = failure_of(error);
  failed_ = true;
  drop_all(finished.failure, finished);
}

void Lane::leave(Finished& finished) noexcept {
  failed_ = failed_ || !finished.failure.ok();
  mutex_.unlock();
  if (!finished.failure.ok()) end_group(finished.failure);
  if (finished.any()) finished.deliver(&bell());
}

}  // namespace customccl
