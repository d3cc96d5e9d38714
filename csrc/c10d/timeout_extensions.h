#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "platform/clock.h"

namespace customccl::torch_shim {

// Time that a user adds for a while (Backend::addEphemeralTimeout). An extension counts for every operation that begins after it,
// until the first of them is over. Several add up, and each ends by itself. Thread-safe.
class TimeoutExtensions {
 public:
  // What one operation gets, and which extensions end with it.
  struct Grant {
    Nanos extra{0};
    std::vector<std::uint64_t> ends;
  };

  void add(Nanos extra) {
    const std::lock_guard lock(mutex_);
    extensions_.push_back({next_++, extra, false});
    any_.store(true, std::memory_order_release);
  }

  Grant grant() {
    Grant grant;
    if (!any_.load(std::memory_order_acquire)) return grant;
    const std::lock_guard lock(mutex_);
    for (Extension& each : extensions_) {
      grant.extra = to_limit(std::chrono::duration_cast<std::chrono::milliseconds>(grant.extra + each.extra));
      if (!each.claimed) grant.ends.push_back(each.id);
      each.claimed = true;
    }
    return grant;
  }

  // The operation that got `grant` is over.
  void end(const Grant& grant) {
    if (grant.ends.empty()) return;
    const std::lock_guard lock(mutex_);
    std::erase_if(extensions_, [&](const Extension& each) {
      return std::find(grant.ends.begin(), grant.ends.end(), each.id) != grant.ends.end();
    });
    any_.store(!extensions_.empty(), std::memory_order_release);
  }

 private:
  struct Extension {
    std::uint64_t id;
    Nanos extra;
    bool claimed;  // an operation has begun since
  };

  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::vector<Extension> extensions_;
  std::uint64_t next_ = 0;
};

}  // namespace customccl::torch_shim
