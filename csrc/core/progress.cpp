#include "core/progress.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "host/host_arena.h"
#include "platform/background_thread.h"
#include "platform/clock.h"
#include "platform/log.h"
#include "platform/once_per_process.h"
#include "platform/settings.h"

namespace customccl {

namespace {

constexpr Nanos kPatience =
    std::chrono::microseconds(200);  // for new work: the thread that posted it usually waits by itself
constexpr Nanos kLongest = std::chrono::milliseconds(4);  // asleep, while work is pending
constexpr Nanos kInspect = std::chrono::milliseconds(2);  // between looks for dead peers and deadlines
constexpr int kIdleRounds = 16;                           // of yielding before sleep: the peers move too

thread_local bool on_progress_thread = false;

bool drive_all(const std::vector<std::shared_ptr<Lane>>& lanes) {
  bool moved = false;
  for (const auto& lane : lanes) moved = lane->drive() || moved;
  return moved;
}

bool any_busy(const std::vector<std::shared_ptr<Lane>>& lanes) {
  return std::any_of(lanes.begin(), lanes.end(), [](const auto& lane) { return lane->busy(); });
}

// Until a peer rings, or kLongest. Groups of one have no arena and no peers.
void sleep_until_rung(const std::vector<std::shared_ptr<Lane>>& lanes) {
  HostArena* arena = HostArena::existing();
  if (arena == nullptr) {
    std::this_thread::sleep_for(kLongest);
  } else {
    arena->header().bell.sleep(kLongest, [&] { return drive_all(lanes) || !any_busy(lanes); });
  }
}

}  // namespace

Progress& Progress::get() { return once_per_process<Progress>(); }

bool Progress::is_this_thread() { return on_progress_thread; }

void Progress::watch(std::shared_ptr<Lane> lane) {
  const std::lock_guard lock(mutex_);
  if (!started_) start();
  if (std::find(lanes_.begin(), lanes_.end(), lane) != lanes_.end()) return;
  spare_.reserve(lanes_.size() + 1);
  lanes_.push_back(std::move(lane));
  watched_.store(static_cast<int>(lanes_.size()), std::memory_order_relaxed);
  if (lanes_.size() == 1) wake_.notify_one();
}

// Without the thread operations end by those who wait for them or poll; the next task tries again.
void Progress::start() {
  if (!settings().progress_thread) return;
  HostArena::existing();  // the first look needs memory
  const Status status = start_background_thread("customccl-move", [this] { run(); });
  started_ = status.ok();
  if (!started_ && !std::exchange(told_, true))
    log(LogLevel::kWarning, "operations go on only while somebody waits for them: " + status.message());
}

const Progress::Lanes& Progress::busy_lanes() {
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

void Progress::next_lanes(Lanes& lanes) {
  std::unique_lock lock(mutex_);
  if (busy_lanes().empty()) {
    wake_.wait(lock, [this] { return !lanes_.empty(); });
    lock.unlock();
    std::this_thread::sleep_for(kPatience);
    lock.lock();
    busy_lanes();
  }
  if (lanes.capacity() < lanes_.size()) lanes.swap(spare_);
  lanes = lanes_;
}

void Progress::run() {
  on_progress_thread = true;
  Clock::time_point inspected = Clock::now();
  Lanes lanes;
  for (;;) {
    next_lanes(lanes);
    for (int idle = 0; idle < kIdleRounds && any_busy(lanes); ++idle) {
      if (drive_all(lanes)) {
        idle = 0;
      } else {
        ::sched_yield();
      }
    }
    if (Clock::now() - inspected > kInspect) {
      inspected = Clock::now();
      for (const auto& lane : lanes) lane->inspect();
    }
    if (any_busy(lanes)) sleep_until_rung(lanes);
    lanes.clear();  // the last to let go of a group ends it
  }
}

}  // namespace customccl
