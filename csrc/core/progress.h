#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/lane.h"

namespace customccl {

// Moves what nobody waits for. One per process; its thread starts with the first asynchronous task that does not end at once, and
// sleeps while nothing is pending. It leaves lanes alone that another thread drives, and newly pending work for 200 us: usually
// somebody waits by then, and a hand-over between threads would cost more than the operation. Then it drives, and sleeps on the
// process's doorbell while nothing moves.
class Progress {
 public:
  // Of this process; a forked child gets one of its own. Never destroyed.
  static Progress& get();
  // Whether this is the progress thread.
  static bool is_this_thread();

  // `lane` has pending work now. It is forgotten again once it has none.
  void watch(std::shared_ptr<Lane> lane);
  // Drives every other watched lane once: for a thread that waits anyway.
  bool drive_others(const Lane& own);

 private:
  using Lanes = std::vector<std::shared_ptr<Lane>>;
  void start();
  void run();
  // Forgets the others.
  const Lanes& busy_lanes();
  // Waits for lanes that have pending work, and puts them into `lanes`. Needs no memory: nobody catches what the thread throws.
  void next_lanes(Lanes& lanes);

  std::mutex mutex_;
  std::condition_variable wake_;
  Lanes lanes_;
  Lanes spare_;  // has room for them, for a thread whose own has not
  std::atomic<int> watched_{0};
  bool started_ = false;
  bool told_ = false;  // that it could not be started
};

}  // namespace customccl
