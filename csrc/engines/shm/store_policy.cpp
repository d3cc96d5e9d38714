#include "engines/shm/store_policy.h"

#include "platform/settings.h"

namespace customccl::shm {

StorePolicy::StorePolicy() {
  fixed_ = settings().store_policy != "auto";
  fixed_store_ = settings().store_policy == "streaming" ? Store::kStreaming : Store::kPlain;
}

Store StorePolicy::choose(std::size_t bytes, bool& measure) {
  measure = false;
  if (fixed_) return fixed_store_;
  if (bytes < kSmall) return Store::kPlain;
  if (bytes < kMeasured) return preferred();
  measure = true;
  const std::uint32_t number = measured_++;
  if (number < kTrials) return number % 2 == 0 ? Store::kPlain : Store::kStreaming;
  const bool retry = number % kRetry == kRetry - 1;
  return (preferred() == Store::kStreaming) != retry ? Store::kStreaming : Store::kPlain;
}

void StorePolicy::observe(Store store, std::size_t bytes, Nanos took) {
  const double cost = static_cast<double>(took.count()) / static_cast<double>(bytes);
  double& known = cost_[static_cast<std::size_t>(store)];
  // A disturbed run can only look slow: follow a better figure at once, a worse one slowly.
  known = known == 0 || cost < known ? cost : known + (cost - known) / 8;
}

}  // namespace customccl::shm
