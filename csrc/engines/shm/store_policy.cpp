#include "engines/shm/store_policy.h"

#include <algorithm>
#include <bit>

#include "platform/settings.h"

namespace customccl::shm {

StorePolicy::StorePolicy() {
  fixed_ = settings().store_policy != "auto";
  fixed_store_ = settings().store_policy == "streaming" ? Store::kStreaming : Store::kPlain;
}

StorePolicy::Class& StorePolicy::class_of(std::size_t bytes) {
  const auto power = static_cast<std::size_t>(std::bit_width(bytes / kSmall));
  return classes_[std::min(power, kClasses - 1)];
}

Store StorePolicy::choose(std::size_t bytes, bool& measure) {
  measure = false;
  if (fixed_) return fixed_store_;
  if (bytes < kSmall) return Store::kPlain;
  Class& known = class_of(bytes);
  const std::uint32_t number = known.count++;
  measure = number < kTrials || bytes >= kLarge || number % kMeasure == 0 || known.doubted;
  if (number < kTrials) return number % 2 == 0 ? Store::kPlain : Store::kStreaming;
  const bool other = known.doubted || number % kRetry == 0;
  return (known.preferred() == Store::kStreaming) != other ? Store::kStreaming : Store::kPlain;
}

void StorePolicy::observe(Store store, std::size_t bytes, Nanos took) {
  const double cost = static_cast<double>(took.count()) / static_cast<double>(bytes);
  Class& known = class_of(bytes);
  double& best = known.cost[static_cast<std::size_t>(store)];
  if (known.doubted) {
    best = cost;
    known.doubted = false;
    return;
  }
  known.slow = store == known.preferred() && best != 0 && cost > 2 * best ? known.slow + 1 : 0;
  if (known.slow >= 3) {
    best = cost;
    known.slow = 0;
    known.doubted = true;
    return;
  }
  // A disturbed operation can only look slow: follow a better figure at once, a worse one slowly.
  best = best == 0 || cost < best ? cost : best + (cost - best) / 8;
}

}  // namespace customccl::shm
