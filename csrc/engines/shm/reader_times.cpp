#include "engines/shm/reader_times.h"

#include <algorithm>
#include <utility>

namespace customccl::shm {

void ReaderTimes::ask(std::uint64_t turn, StorePolicy& policy, StorePolicy::Kind kind, Store store, std::size_t bytes,
                      Nanos own) {
  policy_ = &policy;
  kind_ = kind;
  turn_ = turn;
  store_ = store;
  bytes_ = bytes;
  own_ = own;
}

void ReaderTimes::look() {
  std::uint64_t longest = 0;
  bool lost = false;
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.rank()) continue;
    const std::uint64_t told = members_.of(member).told.load(std::memory_order_relaxed);
    const std::uint64_t ahead = ((told >> kTimeBits) - turn_) % kTurns;
    if (ahead >= kTurns / 2) return;  // an answer to what was asked before
    longest = std::max(longest, told & kNothing);
    lost |= ahead != 0;
  }
  StorePolicy& policy = *std::exchange(policy_, nullptr);
  if (lost || longest == kNothing) {
    policy.forget(store_, bytes_, kind_);
  } else {
    policy.observe(store_, bytes_, kind_, own_ + Nanos(static_cast<Nanos::rep>(longest)));
  }
}

bool ReaderTimes::asked(std::uint64_t turn) const {
  for (int member = 0; member < members_.size(); ++member) {
    if (member != members_.rank() && members_.line(member, turn).asks()) return true;
  }
  return false;
}

void ReaderTimes::tell(std::uint64_t turn, std::optional<Nanos> took) {
  const std::uint64_t nanos = took ? std::min(static_cast<std::uint64_t>(took->count()), kNothing - 1) : kNothing;
  members_.own().told.store((turn % kTurns) << kTimeBits | nanos, std::memory_order_relaxed);
}

}  // namespace customccl::shm
