#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/communicator.h"
#include "host/peer_arena.h"

namespace customccl::torch_shim {

// What ends the meeting of a group before its limit: this rank gives it up, or a rank that has not come cannot any more, as another
// group of this process knows, or its memory here shows.
// Thread rule: any thread.
class Attendance {
 public:
  Attendance() = default;
  // `members`: for each rank of the group that meets its rank in `known`, a group of the same processes; -1 where it has none.
  Attendance(const std::shared_ptr<const Communicator>& known, std::vector<int> members)
      : known_(known), members_(std::move(members)) {}

  // Whether `rank` is in the other group.
  bool knows(int rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return index < members_.size() && members_[index] >= 0;
  }
  // From now on `rank`, which the other group has not, is the process that said `address`, its own_address(); "": nobody knows which.
  // Whether that is settled: a process that is stopped does not answer, and is asked again by the next call.
  bool watch(int rank, const std::string& address);
  // "" where this process has no memory to share.
  static std::string own_address();

  void give_up() { given_up_ = true; }
  bool given_up() const { return given_up_; }

  // The ranks of the group that meets which take part in nothing any more, and why: kPeerDied, or kPeerLeft of one that lives.
  std::vector<std::pair<int, Code>> gone() const;

 private:
  // A process that another group does not know. It has ended, or has its memory mapped here, or is one of which nothing is known.
  struct Watched {
    bool ended = false;
    std::shared_ptr<PeerArena> arena;
  };

  std::weak_ptr<const Communicator> known_;  // whoever waits here keeps no group alive
  std::vector<int> members_;
  std::atomic<bool> given_up_{false};
  mutable std::mutex mutex_;
  std::vector<Watched> watched_;  // by rank
};

}  // namespace customccl::torch_shim
