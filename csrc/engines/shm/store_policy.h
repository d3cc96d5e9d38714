#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/copy.h"
#include "platform/clock.h"

namespace customccl::shm {

// Chooses how a rank writes its staging. Stores into memory that the reader's core still caches are slow across last-level
// caches (each line must be taken back) and non-temporal ones are not; within one cache it is the other way round. Which case
// this is cannot be read off any table in a virtual machine, and changes when the hypervisor moves a core. So it is measured:
// large operations try both and the faster one stays; every 64th tries the other again. The choice concerns only
// the writer, so ranks need not agree. (Figures: docs/performance.md.)
class StorePolicy {
 public:
  StorePolicy();

  // For an operation that stages `bytes`. `measure` tells the caller to report the time of this one.
  Store choose(std::size_t bytes, bool& measure);
  void observe(Store store, std::size_t bytes, Nanos took);

  Store preferred() const { return cost_[1] < cost_[0] ? Store::kStreaming : Store::kPlain; }

 private:
  static constexpr std::size_t kMeasured = 512 << 10;  // smaller operations use what larger ones found out
  static constexpr std::size_t kSmall = 16 << 10;      // below, plain: the reader takes it from our cache
  static constexpr std::uint32_t kTrials = 6;          // first measured operations alternate
  static constexpr std::uint32_t kRetry = 64;

  bool fixed_ = false;
  Store fixed_store_ = Store::kPlain;
  std::uint32_t measured_ = 0;
  std::array<double, 2> cost_{0, 0};  // ns per byte, by Store; 0 = not known
};

}  // namespace customccl::shm
