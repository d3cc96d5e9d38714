#include "c10d/group_keys.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <charconv>

#include "host/bootstrap.h"

namespace customccl::torch_shim {

GroupKeys::GroupKeys(StorePtr store, int rank) : store_(std::move(store)), own_key_(count_key(key_of_rank(rank))) {
  enter(store_->add(own_key_, 1));
}

// add() of nothing would make a FileStore grow with every look.
std::int64_t GroupKeys::count_of(const std::string& key) const {
  const std::string name = count_key(key);
  if (!store_->check({name})) return 0;
  const auto digits = store_->get(name);
  const auto* text = reinterpret_cast<const char*>(digits.data());
  std::int64_t count = 0;
  std::from_chars(text, text + digits.size(), count);
  return count;
}

bool GroupKeys::follow(const std::string& key) {
  if (!store_) return false;
  const std::int64_t theirs = count_of(key);
  if (theirs <= number_) return false;
  enter(store_->add(own_key_, theirs - number_));
  return true;
}

void GroupKeys::enter(std::int64_t number) {
  number_ = number;
  part_ = c10::make_intrusive<::c10d::PrefixStore>(std::to_string(number), store_);
}

}  // namespace customccl::torch_shim
