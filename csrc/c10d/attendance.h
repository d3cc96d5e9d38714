#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/communicator.h"

namespace customccl::torch_shim {

// What ends the meeting of a group before its limit: this rank gives it up, or a rank that has not come cannot any more, as another
// group of this process knows.
// Thread rule: any thread.
class Attendance {
 public:
  Attendance() = default;
  // `members`: for each rank of the group that meets its rank in `known`, a group of the same processes; -1 where it has none.
  Attendance(const std::shared_ptr<const Communicator>& known, std::vector<int> members)
      : known_(known), members_(std::move(members)) {}

  void give_up() { given_up_ = true; }
  bool given_up() const { return given_up_; }

  // The ranks of the group that meets which take part in nothing any more, and why: kPeerDied, or kPeerLeft of one that lives.
  std::vector<std::pair<int, Code>> gone() const {
    std::vector<std::pair<int, Code>> ranks;
    const auto known = known_.lock();
    for (std::size_t rank = 0; known != nullptr && rank < members_.size(); ++rank) {
      const Code why = members_[rank] >= 0 ? known->gone(members_[rank]) : Code::kOk;
      if (why != Code::kOk) ranks.emplace_back(static_cast<int>(rank), why);
    }
    return ranks;
  }

 private:
  std::weak_ptr<const Communicator> known_;  // whoever waits here keeps no group alive
  std::vector<int> members_;
  std::atomic<bool> given_up_{false};
};

}  // namespace customccl::torch_shim
