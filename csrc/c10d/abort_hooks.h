#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

namespace customccl::torch_shim {

// Functions to run when a failure of the group is first noticed, before anybody sees the error: from 2.14 on, torch writes its flight
// record there. They run once in a group's life, with no lock held. Thread-safe.
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
  }
  void run() {
    std::map<std::int64_t, Hook> hooks;
    {
      const std::lock_guard lock(mutex_);
      hooks.swap(hooks_);
    }
    for (const auto& [id, hook] : hooks) {
      try {
        hook();
      } catch (const std::exception& error) {
        TORCH_WARN("customccl: an abort hook failed: ", error.what());
      }
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, Hook> hooks_;
};

}  // namespace customccl::torch_shim
