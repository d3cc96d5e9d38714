#include "c10d/abort_hooks.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <utility>

#include "c10d/python_lock.h"
#include "platform/background_thread.h"
#include "platform/once_per_process.h"

namespace customccl::torch_shim {

namespace {

// What runs in threads of its own, in this process.
class Runs {
 public:
  static Runs& get() { return once_per_process<Runs>(); }

  // Runs `body`, and waits until it is over, at most `patience`. Where the system starts no more threads it runs here.
  void run(std::function<void()> body, Nanos patience) {
    const auto job = std::make_shared<Job>(Job{std::move(body)});
    std::unique_lock lock(mutex_);
    ++running_;
    if (!start_background_thread("customccl-abort", [this, job] { carry_out(*job); }).ok()) {
      lock.unlock();
      return carry_out(*job);
    }
    changed_.wait_for(lock, patience, [&] { return job->over; });
  }

  void wait(Nanos limit) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [this] { return running_ == 0; });
  }

 private:
  struct Job {
    std::function<void()> body;
    bool over = false;
  };

  void carry_out(Job& job) {
    job.body();
    job.body = nullptr;  // what it holds may need Python to go
    const std::lock_guard lock(mutex_);
    job.over = true;
    --running_;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t running_ = 0;
};

void run_all(const std::map<std::int64_t, AbortHooks::Hook>& hooks) {
  for (const auto& [id, hook] : hooks) {
    try {
      hook();
    } catch (const std::exception& error) {
      TORCH_WARN("customccl: an abort hook failed: ", error.what());
    }
  }
}

}  // namespace

void AbortHooks::add(std::int64_t id, Hook hook) {
  const std::lock_guard lock(mutex_);
  hooks_[id] = std::move(hook);
}

void AbortHooks::remove(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  hooks_.erase(id);
  spent_.erase(id);
}

AbortHooks::Hooks AbortHooks::take() {
  Hooks hooks;
  const std::lock_guard lock(mutex_);
  hooks.swap(hooks_);
  for (const auto& [id, hook] : hooks) spent_[id] = hook;
  return hooks;
}

void AbortHooks::run() {
  constexpr auto kPatience = std::chrono::milliseconds(10);
  Hooks hooks = take();
  if (hooks.empty()) return;
  // A hook that is written in Python could not begin while this thread holds on to it.
  const WithoutPythonLock without_lock;
  Runs::get().run([hooks = std::move(hooks)] { run_all(hooks); }, kPatience);
}

void AbortHooks::rearm() {
  const std::lock_guard lock(mutex_);
  hooks_.merge(spent_);
  spent_.clear();
}

void wait_for_abort_hooks(Nanos limit) { Runs::get().wait(limit); }

}  // namespace customccl::torch_shim
