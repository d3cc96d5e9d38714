#pragma once

#include <string>
#include <vector>

#include "platform/clock.h"

namespace customccl {

// What a group is made from.
struct GroupSpec {
  std::string name;  // for messages; all ranks give the same
  int rank = 0;
  int size = 1;
  std::vector<int> global_ranks;  // global rank of each member, for messages; size entries
  Nanos timeout = std::chrono::minutes(30);
};

}  // namespace customccl
