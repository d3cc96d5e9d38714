#include "host/tensor_memory.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "host/keeper.h"
#include "host/limbo.h"
#include "platform/once_per_process.h"

namespace customccl {

TensorMemory& TensorMemory::of_process() { return once_per_process<TensorMemory>(); }

Status TensorMemory::allocate(std::size_t bytes, Block& out) {
  if (const auto found = reuse(bytes)) {
    out = *found;
    return {};
  }
  HostArena* arena = nullptr;
  if (Status status = HostArena::get(arena); !status.ok()) return status;
  const bool large = bytes >= kHugePage;
  if (Status status = arena->allocate(std::max<std::size_t>(bytes, 1), out, large ? kHugePage : RangeAllocator::kPage);
      !status.ok())
    return status;
  if (large) gather_pages(out.data, bytes);
  const std::lock_guard lock(mutex_);
  count_in(out);
  attempt([this] { give_back_excess(); });  // what there is no memory for waits on
  return {};
}

std::optional<Block> TensorMemory::reuse(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  // The latest, as its lines are most likely in a cache.
  const auto found =
      std::find_if(waiting_.rbegin(), waiting_.rend(), [&](const Waiting& each) { return each.bytes == bytes; });
  if (found == waiting_.rend()) return std::nullopt;
  const Block block = found->block;
  waiting_bytes_ -= block.bytes;
  waiting_.erase(std::next(found).base());
  count_in(block);
  return block;
}

void TensorMemory::count_in(const Block& block) {
  in_use_ += block.bytes;
  most_in_use_ = std::max(most_in_use_, in_use_);
}

void TensorMemory::release(const Block& block, std::size_t bytes) noexcept {
  HostArena* arena = HostArena::existing();
  const bool shared = arena->shares(block.data, block.bytes);
  bool waits = false;
  bool unwatched = false;
  {
    const std::lock_guard lock(mutex_);
    in_use_ -= block.bytes;
    waits = shared && attempt([&] { waiting_.push_back({block, bytes, Clock::now()}); });
    if (waits) {
      waiting_bytes_ += block.bytes;
      attempt([this] { give_back_excess(); });
      unwatched = !std::exchange(watched_, true);
    }
  }
  if (unwatched) wake_keeper();
  if (waits) return;
  // Without the memory for that, either, it is nobody's.
  attempt([&] {
    if (shared) return arena->release(block);
    bury({block}, [arena, block] { return arena->settled(block); });
  });
}

std::optional<Clock::time_point> TensorMemory::tidy(Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && now - waiting_.front().since >= kPatience) give_back_oldest();
  watched_ = !waiting_.empty();
  if (!watched_) return std::nullopt;
  return waiting_.front().since + kPatience;
}

bool TensorMemory::give_back_all() {
  const std::lock_guard lock(mutex_);
  const bool any = !waiting_.empty();
  while (!waiting_.empty()) give_back_oldest();
  return any;
}

void TensorMemory::give_back_excess() {
  while (waiting_bytes_ + in_use_ > most_in_use_ + most_in_use_ / 2) give_back_oldest();
}

void TensorMemory::give_back_oldest() {
  const Block oldest = waiting_.front().block;
  HostArena::existing()->release(oldest);
  waiting_bytes_ -= oldest.bytes;
  waiting_.pop_front();
}

std::size_t TensorMemory::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_;
}

}  // namespace customccl
