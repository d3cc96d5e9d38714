#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>

#include "core/task.h"

namespace customccl {

// Runs what users hang on futures when the progress thread completes their operations. A callback may start further operations and
// block until they are done, which only works if the progress thread goes on meanwhile; and it may block until another
// callback has run. So callbacks get threads of their own: a new one whenever none is idle, ended after a second without work. Where the system
// starts no more threads, a callback waits for those that there are; if there are none, it runs on the progress thread.
class Callbacks {
 public:
  // Of this process; a forked child gets one of its own. Never destroyed.
  static Callbacks& get();

  // Runs task->completed() on some thread. An exception: it does not.
  void run(std::shared_ptr<Task> task);
  // Runs it here. What it throws is told the log, as it may come to the end of a thread of ours.
  static void tell(Task& task) noexcept;

  // For the end of the process: runs nothing any more, and waits for what runs, at most `limit`. Callbacks may need Python, which
  // stops threads that come to it while it ends.
  void stop(Nanos limit);

 private:
  void serve();
  // Runs what has waited longest; not under the lock.
  void run_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable quiet_;
  std::deque<std::shared_ptr<Task>> waiting_;
  std::size_t threads_ = 0;  // that serve, from before they start; while something waits, at least one
  std::size_t idle_ = 0;
  std::size_t running_ = 0;
  bool stopped_ = false;
  bool told_ = false;
};

}  // namespace customccl
