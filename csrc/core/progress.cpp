#include "core/progress.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <thread>

#include "platform/clock.h"
#include "platform/process.h"
#include "platform/settings.h"

namespace customccl {

namespace {

constexpr Nanos kPatience = std::chrono::microseconds(200);  // between looks: the thread that posted usually waits by itself
constexpr Nanos kLongest = std::chrono::milliseconds(4);     // between looks at work that does not move
constexpr Nanos kInspect = std::chrono::milliseconds(2);     // between looks for dead peers and deadlines

std::mutex instance_mutex;
Progress* instance = nullptr;  // leaked on purpose: its thread runs until the process is gone
std::uint64_t instance_generation = 0;

}  // namespace

Progress& Progress::get() {
  const std::lock_guard lock(instance_mutex);
  if (instance == nullptr || instance_generation != fork_generation()) {
    instance = new Progress();
    instance_generation = fork_generation();
  }
  return *instance;
}

void Progress::watch(std::shared_ptr<Lane> lane) {
  const std::lock_guard lock(mutex_);
  if (std::find(lanes_.begin(), lanes_.end(), lane) != lanes_.end()) return;
  lanes_.push_back(std::move(lane));
  watched_.store(static_cast<int>(lanes_.size()), std::memory_order_relaxed);
  if (lanes_.size() > 1) return;
  if (!started_ && settings().progress_thread) {
    started_ = true;
    sigset_t all;
    sigset_t previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);  // signals belong to the program's own threads
    std::thread([this] { run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  }
  wake_.notify_one();
}

std::vector<std::shared_ptr<Lane>> Progress::busy_lanes() {
  std::erase_if(lanes_, [](const auto& lane) { return !lane->busy(); });
  watched_.store(static_cast<int>(lanes_.size()), std::memory_order_relaxed);
  return lanes_;
}

bool Progress::drive_others(const Lane& own) {
  if (watched_.load(std::memory_order_relaxed) == 0) return false;
  std::vector<std::shared_ptr<Lane>> lanes;
  {
    const std::lock_guard lock(mutex_);
    lanes = busy_lanes();
  }
  bool moved = false;
  for (const auto& lane : lanes) {
    if (lane.get() == &own) continue;
    moved = lane->drive() || moved;
    lane->inspect();
  }
  return moved;
}

void Progress::run() {
  pthread_setname_np(pthread_self(), "customccl-move");
  Nanos pause = kPatience;
  Clock::time_point inspected = Clock::now();
  for (;;) {
    std::vector<std::shared_ptr<Lane>> lanes;
    {
      std::unique_lock lock(mutex_);
      lanes = busy_lanes();
      if (lanes.empty()) {
        wake_.wait(lock, [this] { return !lanes_.empty(); });
        pause = kPatience;
      }
    }
    std::this_thread::sleep_for(pause);
    bool moved = false;
    const bool inspect = Clock::now() - inspected > kInspect;
    if (inspect) inspected = Clock::now();
    for (const auto& lane : lanes) {
      // While it moves, keep at it: the peers move too.
      for (int idle = 0; idle < 16; ++idle) {
        if (lane->drive()) {
          moved = true;
          idle = 0;
        } else {
          ::sched_yield();
        }
        if (!lane->busy()) break;
      }
      if (inspect) lane->inspect();
    }
    pause = moved ? kPatience : std::min(pause * 2, kLongest);
  }
}

}  // namespace customccl
