#pragma once

#include <cstdint>
#include <string>

#include "c10d/compat.h"

namespace customccl::torch_shim {

// The part of a store in which the ranks of a group meet.
//
// A store outlives groups: a part is used for one meeting only, as a rank that reads what another meeting left would connect to nobody.
// Parts are numbered, and each rank counts for itself which it has come to. Mostly all have come to the same. They have not when a
// process ended before it came (torchrun starts all again, with the same store), or when a group of fewer ranks was made in between.
// Then everybody goes on to the highest number: who waits for a rank that is ahead follows it there.
//
// Invariant: a rank uses a number once, for its own count alone decides and only grows. So what lies in a part under a rank is of one
// attempt. And a meeting needs all ranks in one part, so below the highest number to which one of them has come none succeeds.
//
// Thread rule: used by one thread at a time.
class GroupKeys {
 public:
  using StorePtr = c10::intrusive_ptr<::c10d::Store>;

  // A part of `store` that this rank has not used.
  GroupKeys(StorePtr store, int rank);
  // All of `part`, in which nothing else meets.
  explicit GroupKeys(StorePtr part) : part_(std::move(part)) {}

  const StorePtr& part() const { return part_; }
  // `key` is another rank's (key_of_rank): is that rank ahead? Then this one is where it is, on return.
  bool follow(const std::string& key);

 private:
  std::int64_t count_of(const std::string& key) const;
  void enter(std::int64_t number);

  StorePtr store_;  // null: there is one part only
  StorePtr part_;
  std::string own_key_;
  std::int64_t number_ = 0;
};

// The count of the rank whose key it is. Also read by latest_keys() in torch_customccl/backend.py.
inline std::string count_key(const std::string& key) { return "groups_of_" + key; }

}  // namespace customccl::torch_shim
