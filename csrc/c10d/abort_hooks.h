#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "platform/clock.h"

namespace customccl::torch_shim {

// Functions to run when a failure of the group is first noticed: from 2.14 on, torch writes its flight record there. That takes it
// seconds, as it imports its compiler to tell the lines of code. So they run in a thread of their own, and who noticed the failure waits
// for them only a moment: quick ones have run before anybody sees the error, and none keeps it back.
//
// They run once, with no lock held, until rearm(). Thread-safe.
class AbortHooks {
 public:
  using Hook = std::function<void()>;

  void add(std::int64_t id, Hook hook);
  void remove(std::int64_t id);
  void run();
  // The group works again: another failure is news.
  void rearm();

 private:
  using Hooks = std::map<std::int64_t, Hook>;

  // Those that have not run; they count as run now.
  Hooks take();

  std::mutex mutex_;
  Hooks hooks_;
  Hooks spent_;  // have run
};

// For the end of the process: waits for the hooks of all groups, at most `limit`. They may need Python, which stops threads that come
// to it while it ends.
void wait_for_abort_hooks(Nanos limit);

}  // namespace customccl::torch_shim
