#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"
#include "core/task.h"
#include "host/doorbell.h"
#include "platform/cpu.h"
#include "platform/lock.h"
#include "platform/process.h"

namespace customccl {

// Tasks that became done under a lane's lock and whose completed() shall be called after it is released; they hold themselves until then.
// Also carries a failure that ends the group out of the lock.
class Finished {
 public:
  // `own`: the task that this thread carries to its end itself; nobody else waits for it if it lies on the stack.
  explicit Finished(const Task* own = nullptr) : own_(own) {}
  // Whether there is anything to deliver.
  bool any() const { return concerns_others_; }
  // Wakes who sleeps at `bell`, if there is one, as another thread may until a task is done that ended here. Not in a destructor: a
  // callback may need Python, and Python unwinds the threads that it meets while it ends.
  void deliver(Doorbell* bell) noexcept;
  // The same for one that was over before its post() returned: it wakes nobody, as nobody but a hook has heard of it.
  static void deliver(std::shared_ptr<Task> task) noexcept;
  void add(Task& task) {
    if (task.keep_alive_ == nullptr) {  // on the stack: its thread delivers
      concerns_others_ = concerns_others_ || &task != own_;
      return;
    }
    task.next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = &task;
    last_ = &task;
    concerns_others_ = true;
  }

  Status failure;  // not ok: the group is to be closed with this

 private:
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  const Task* own_;
  bool concerns_others_ = false;
};

// What a call tells that was over before it became a task.
struct Ended {
  std::uint64_t sequence = 0;
  int source = -1;  // of a received message
};

// Tasks of one group that are driven together: its collectives (in order), or its messages.
// Whoever has time drives: a thread that waits, one that polls or posts, or the progress thread. Only one at a time does.
//
// An exception under the lock, for want of memory, ends the group and all of the lane's tasks there and then: what it has left half done
// is never looked at again. So no task waits for ever, whichever queue it was just moved between.
//
// A callback may fork, and the child returns from it into what its parent was doing with a lane, which it leaves alone then.
class Lane {
 public:
  // A call begins without a task, and needs none where the ranks are in step. Else the lane stays locked until continue_as(), which comes
  // next, has a task that goes on with the call.
  enum class Begun : std::uint8_t {
    kOver,      // it is done, and all is well
    kUnderWay,  // peers may have seen it begin; or it has failed
    kNot,       // nothing was done
  };

  virtual ~Lane() = default;

  // Moves what can be moved, if no other thread is at it. True when anything moved. `own`: what this thread waits for. `sleeps`: it
  // is about to sleep, so it looks after the thread that is at it now (wait_until()).
  bool drive(const Task* own = nullptr, bool sleeps = false) {
    if (inherited()) return false;
    if (!mutex_.try_lock()) {
      if (!sleeps) return false;
      mutex_.lock();
    }
    return drive_locked(own);
  }
  // Takes a task in and drives the lane, with at most `looks` looks at what does not move: ranks in step finish a small
  // operation within a microsecond, here, under one lock.
  void post(Task& task, int looks, std::shared_ptr<Task> keep_alive = nullptr) {
    mutex_.lock();
    post_locked(task, looks, std::move(keep_alive));
  }
  // Refuses every task from now on but those that pauses(), until go_on(). What was taken in goes on.
  void pause() { set_paused(true); }
  void go_on() { set_paused(false); }
  // Ends a task at once, without touching anything else.
  void reject(Task& task, std::shared_ptr<Task> keep_alive);
  // The same for a task that this process inherited in the queue when it was forked. Of the queue nothing is looked at: a thread of the
  // parent's may have left it within a change, and what lies on such a thread's stack may be another's by now.
  void abandon(Task& task);

  // Ends a task that nothing has come for yet with `why`; false if it is done or on its way.
  bool withdraw(Task& task, Status why);

  // Slow path: deadlines, dead peers. Ends the group if it must.
  void inspect();

  // Ends every task with what explain(task, why) makes of `why`, and every later one by refusal().
  void close(const Status& why) noexcept;

  // Ranks of the group that a pending task waits for, as far as is known; for messages.
  std::vector<int> awaited(const Task& task) {
    if (inherited()) return {};
    const std::lock_guard lock(mutex_);
    return task.done() || closed_ ? std::vector<int>() : awaited_by(task);
  }

  // Whether, at the last post, another rank was seen on this thread's processor: a wait had better yield at once.
  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }

  bool busy() const { return pending_.load(std::memory_order_relaxed) != 0; }

 protected:
  // All of these hold the lock.
  virtual void accept(Task& task, Finished& finished) = 0;
  virtual bool advance(Finished& finished) = 0;
  virtual bool shares_processor() const { return false; }
  virtual Status find_failure(Finished& finished) = 0;
  // Fails all with explain().
  virtual void drop_all(const Status& why, Finished& finished) noexcept = 0;
  // After the lock is released, when finished.failure is set.
  virtual void end_group(const Status& why) = 0;
  virtual Doorbell& bell() const = 0;  // of the group
  virtual Status refusal(const Task& task) const noexcept = 0;
  virtual Status explain(const Task& task, const Status& why) const noexcept = 0;
  virtual std::vector<int> awaited_by(const Task& task) = 0;
  // Forgets a task that nothing has come for; false where that is not so.
  virtual bool take_back(Task& /*task*/) { return false; }

  // It is over; its status says how.
  void finish(Task& task, Finished& finished) {
    count(-1);
    forget(task);
    if (task.keep_alive_ != nullptr) task.ended_ = Clock::now();
    finished.add(task);
    task.done_.store(true, std::memory_order_release);  // a task on the stack may be gone from here on
  }
  void fail(Task& task, Status&& status, Finished& finished) {
    task.status_ = std::move(status);
    finish(task, finished);
  }

  static Task*& next_of(Task& task) { return task.next_; }

  // It is not over, and waits or is under way.
  void keep(Task& task, std::shared_ptr<Task>&& keep_alive) {
    task.deadline_.start();
    task.keep_alive_ = std::move(keep_alive);
    task.held_before_ = held_last_;
    (held_last_ == nullptr ? held_first_ : held_last_->held_after_) = &task;
    held_last_ = &task;
  }
  // The first one that was kept and is not over, or nullptr; and all of them, in the order in which they were.
  Task* held() const { return held_first_; }
  template <class Visit>
  void for_each_held(Visit&& visit) const {
    for (const Task* task = held_first_; task != nullptr; task = task->held_after_) visit(*task);
  }

  // Does what may need memory. False: there was none, and everything that was kept has ended.
  template <class Work>
  bool protect(Finished& finished, Work&& work) {
    try {
      work();
      return true;
    } catch (const std::exception& error) {
      give_up(error, finished);
      return false;
    }
  }
  [[gnu::cold]] static Status failure_of(const std::exception& error);

  // What diagnose() finds of the peers, once everything that they had published before has been taken in: drain() does that, and says
  // whether to go on. A rank is believed dead, gone or late when that is still so after it.
  template <class Diagnose, class Drain>
  static Status believe(Diagnose&& diagnose, Drain&& drain) {
    for (Status before;;) {
      Status now = diagnose();
      if (now.ok() || (!before.ok() && now.culprit == before.culprit)) return now;
      if (!drain()) return {};
      before = std::move(now);
    }
  }

  // post(), which ends with the lock released.
  void post_locked(Task& task, int looks, std::shared_ptr<Task> keep_alive);
  // Whether a call that begins now is the only one.
  bool free() const { return !busy() && running() && !paused_; }
  // Asks over(), which moves what can be moved, until it says yes: at most `looks` times, once where it is crowded().
  template <class Over>
  bool look_until(int looks, Over&& over) {
    if (over()) [[likely]]
      return true;
    crowded_.store(shares_processor(), std::memory_order_relaxed);
    if (crowded()) return false;
    for (int look = 1; look < looks; ++look) {
      if (over()) return true;
      relax();
    }
    return false;
  }
  // Between a failure and close() the lane takes tasks in, which close() ends, but drives none.
  bool running() const { return !closed_ && !failed_; }
  // Whether it is one of the parent's, in a forked child.
  bool inherited() const { return generation_ != fork_generation(); }
  // A lock prefix would cost as much as the lane's lock, which is held anyhow.
  void count(int more) { pending_.store(pending_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed); }
  // Releases the lock, then does what must be done without it.
  [[gnu::hot]] void leave(Finished& finished) noexcept;

  Lock mutex_;
  bool closed_ = false;

 private:
  void set_paused(bool paused) {
    const std::lock_guard lock(mutex_);
    paused_ = paused;
  }
  bool drive_locked(const Task* own);
  bool advance_until(const Task& task, Finished& finished);
  [[gnu::cold]] void give_up(const std::exception& error, Finished& finished);
  void forget(Task& task) {
    if (task.held_after_ != nullptr) task.held_after_->held_before_ = task.held_before_;
    if (task.held_before_ != nullptr) task.held_before_->held_after_ = task.held_after_;
    if (held_first_ == &task) held_first_ = task.held_after_;
    if (held_last_ == &task) held_last_ = task.held_before_;
    task.held_before_ = task.held_after_ = nullptr;
  }

  Task* held_first_ = nullptr;
  Task* held_last_ = nullptr;
  bool failed_ = false;
  bool paused_ = false;
  std::atomic<int> pending_{0};  // tasks; written under the lock, read by anyone
  std::atomic<bool> crowded_{false};
  const std::uint64_t generation_ = fork_generation();
};

}  // namespace customccl
