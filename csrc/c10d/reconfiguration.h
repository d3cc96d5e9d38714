#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "host/notice_board.h"

namespace customccl::torch_shim {

// What a group needs to be given other members: the notice board at which they find this rank, and the numbers that were used.
// Thread-safe: one meeting at a time; handle() does not wait for it.
class Reconfiguration {
 public:
  // Where the others find this rank; the same as long as the group lives.
  std::string handle();
  // The group of the processes with these handles, by rank; this process is one of them. Done within spec.timeout or throws.
  // `uuid` tells the meetings of one group apart: each serves once, whether or not it came about.
  std::shared_ptr<Communicator> meet(std::int64_t uuid, const std::vector<std::string>& handles, GroupSpec spec);

 private:
  NoticeBoard& board();

  const std::uint64_t generation_ = fork_generation();
  std::mutex board_mutex_;
  std::unique_ptr<NoticeBoard> board_;  // made when first asked for
  std::mutex meeting_mutex_;
  std::set<std::int64_t> used_;
};

}  // namespace customccl::torch_shim
