#include "c10d/group_keys.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "host/bootstrap.h"

namespace customccl::torch_shim {

GroupKeys::GroupKeys(StorePtr store, int rank) : store_(std::move(store)), own_key_(count_key(key_of_rank(rank))) {
  enter(store_->add(own_key_, 1));
}

bool GroupKeys::follow(const std::string& key) {
  if (!store_) return false;
  const std::int64_t theirs = store_->add(count_key(key), 0);
  if (theirs <= number_) return false;
  enter(store_->add(own_key_, theirs - number_));
  return true;
}

void GroupKeys::enter(std::int64_t number) {
  number_ = number;
  part_ = c10::make_intrusive<::c10d::PrefixStore>(std::to_string(number), store_);
}

}  // namespace customccl::torch_shim
