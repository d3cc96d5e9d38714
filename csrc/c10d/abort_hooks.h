#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace customccl::torch_shim {

// Functions to run when a failure of the group is first noticed, before anybody sees the error: from 2.14 on, torch writes its flight
// record there. They run once, with no lock held, until rearm(). Thread-safe.
class AbortHooks {
 public:
  using Hook = std::function<void()>;

  void add(std::int64_t id, Hook hook) {
    const std::lock_guard lock(mutex_);
    hooks_[id] = std::move(hook);
  }
  void remove(std::int64_t id) {
    const std::lock_guard lock(mutex_);
    hooks_.erase(id);
    spent_.erase(id);
  }
  void run() {
    std::map<std::int64_t, Hook> hooks;
    {
      const std::lock_guard lock(mutex_);
      hooks.swap(hooks_);
      for (const auto& [id, hook] : hooks) spent_[id] = hook;
    }
    for (const auto& [id, hook] : hooks) {
      try {
        hook();
      } catch (const std::exception& error) {
        TORCH_WARN("customccl: an abort hook failed: ", error.what());
      }
    }
  }
  // The group works again: another failure is news.
  void rearm() {
    const std::lock_guard lock(mutex_);
    hooks_.merge(spent_);
    spent_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, Hook> hooks_;
  std::map<std::int64_t, Hook> spent_;  // have run
};

}  // namespace customccl::torch_shim
