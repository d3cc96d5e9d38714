#include "core/callbacks.h"

#include <utility>

#include "base/attempt.h"
#include "platform/background_thread.h"
#include "platform/log.h"
#include "platform/once_per_process.h"

namespace customccl {

Callbacks& Callbacks::get() { return once_per_process<Callbacks>(); }

void Callbacks::run(std::shared_ptr<Task> task) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(std::move(task));
  if (stopped_) return;  // kept for ever: freeing its tensors may need Python too
  if (idle_ >= waiting_.size()) {
    wake_.notify_one();
    return;
  }
  ++threads_;
  Status started(Code::kSystem, "no memory");  // short enough to need none
  attempt([&] { started = start_background_thread("customccl-call", [this] { serve(); }); });
  if (started.ok()) return;
  --threads_;
  if (!std::exchange(told_, true))
    attempt([&] { log(LogLevel::kWarning, "callbacks may have to wait for each other: " + started.message()); });
  // Who serves takes everything that waits before it ends, as it looks under the lock. If nobody does, nothing else waits.
  if (threads_ == 0) run_first(lock);
}

void Callbacks::tell(Task& task) noexcept {
  if (!attempt([&] { task.completed(); }))
    log(LogLevel::kError, "what was to be told of the end of an operation was not: it ended by an exception");
}

void Callbacks::stop(Nanos limit) {
  std::unique_lock lock(mutex_);
  stopped_ = true;
  quiet_.wait_for(lock, limit, [this] { return running_ == 0; });
}

void Callbacks::serve() {
  constexpr auto kIdle = std::chrono::seconds(1);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    const bool work = wake_.wait_for(lock, kIdle, [this] { return !waiting_.empty(); });
    --idle_;
    if (!work || stopped_) break;
    run_first(lock);
  }
  --threads_;
}

void Callbacks::run_first(std::unique_lock<std::mutex>& lock) {
  std::shared_ptr<Task> task = std::move(waiting_.front());
  waiting_.pop_front();
  ++running_;
  lock.unlock();
  tell(*task);
  task.reset();
  lock.lock();
  if (--running_ == 0) quiet_.notify_all();
}

}  // namespace customccl
