#include "engines/shm/store_policy.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "platform/settings.h"

namespace customccl::shm {

StorePolicy::StorePolicy() {
  fixed_ = settings().store_policy != "auto";
  small_ = settings().store_policy == "streaming" ? Store::kStreaming : Store::kPlain;
}

std::size_t StorePolicy::index_of(std::size_t bytes) {
  return std::min(static_cast<std::size_t>(std::bit_width(bytes / kSmall)), kClasses - 1);
}

StorePolicy::Class& StorePolicy::class_of(std::size_t bytes, Kind kind) {
  auto& classes = classes_[index_of(kind)];
  if (classes == nullptr) [[unlikely]]
    classes = std::make_unique<Classes>();
  return (*classes)[index_of(bytes)];
}

const StorePolicy::Class* StorePolicy::nearest_known(std::size_t bytes, Kind kind) const {
  const std::size_t own = index_of(bytes);
  for (std::size_t distance = 0; distance < kClasses; ++distance) {
    for (const std::size_t index : {own - distance, own + distance}) {  // below zero: far beyond the last one
      if (index >= kClasses) continue;
      const auto knows = [index](const auto& classes) { return classes != nullptr && (*classes)[index].knows_both(); };
      if (const auto& same = classes_[index_of(kind)]; knows(same)) return &(*same)[index];
      if (const auto other = std::ranges::find_if(classes_, knows); other != classes_.end()) return &(**other)[index];
    }
  }
  return nullptr;
}

Store StorePolicy::choose_between(std::size_t bytes, Kind kind, bool& measure) {
  Class& known = class_of(bytes, kind);
  const std::uint32_t number = known.count++;
  const bool look_again = std::exchange(known.look_again, false);
  measure = bytes >= kLarge || number % kMeasure == 0 || known.doubted;
  if (number == 0) {
    const Class* nearest = nearest_known(bytes, kind);
    known.try_in_row(nearest != nullptr ? nearest->preferred() : Store::kPlain, bytes);
  } else if (known.row == 0 && !known.knows_both()) {
    known.try_in_row(other_than(known.tried), bytes);
  } else if ((number % kRetry == 0 && !known.doubted) || look_again) {
    known.try_in_row(other_than(known.preferred()), bytes);
  }
  if (known.row == 0) return known.preferred();
  --known.row;
  measure = true;
  return known.tried;
}

void StorePolicy::forget(Store store, std::size_t bytes, Kind kind) {
  Class& known = class_of(bytes, kind);
  if (store == known.tried && (known.doubted || !known.knows_both())) ++known.row;
}

void StorePolicy::observe(Store store, std::size_t bytes, Kind kind, Nanos took) {
  Class& known = class_of(bytes, kind);
  const bool new_here = !known.knows_both();
  const Store before = known.preferred();
  learn(known, store, bytes, static_cast<double>(took.count()) / static_cast<double>(bytes));
  const Store now = known.preferred();
  if (new_here || now == before || known.cost_of(before) < kDecisive * known.cost_of(now)) return;
  for (auto& classes : classes_) {
    if (classes == nullptr) continue;
    for (Class& each : *classes) each.look_again = each.knows_both() && each.preferred() != now;
  }
}

void StorePolicy::learn(Class& known, Store store, std::size_t bytes, double cost) {
  double& best = known.cost[static_cast<std::size_t>(store)];
  const double other = known.cost[static_cast<std::size_t>(other_than(store))];
  const bool hopeless = other != 0 && cost > 2 * other;
  if (store == known.tried && known.row != 0) {
    if (hopeless) {
      known.row = 0;
    } else if (bytes < kLarge) {
      return;
    }
  }
  if (known.doubted && store == known.tried) {
    best = cost;  // what was known of it is of another time
    known.doubted = false;
    known.trust = known.preferred() == store ? kLeastTrust : std::min(2 * known.trust, kMostTrust);
    known.trusted = known.count + known.trust;
    return;
  }
  const double limit = bytes <= kMovesOn || known.count < known.trusted ? kMuchSlower : kSlower;
  const bool slow = store == known.preferred() && best != 0 && cost > limit * best;
  known.least = slow && known.slow > 0 ? std::min(known.least, cost) : cost;
  known.slow = slow ? known.slow + 1 : 0;
  if (known.slow == kDoubtful) {
    best = known.least;
    known.slow = 0;
    known.doubted = true;
    known.try_in_row(other_than(store), bytes);
    return;
  }
  if (slow) return;
  // A disturbed operation can only look slow: follow a better figure at once, a worse one slowly, however much worse it is. One
  // that had to map staging or lost its processor takes a hundred times as long.
  best = best == 0 || cost < best ? cost : best + (std::min(cost, 2 * best) - best) / 8;
}

}  // namespace customccl::shm
