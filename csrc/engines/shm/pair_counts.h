#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engines/operation.h"
#include "engines/shm/members.h"

namespace customccl::shm {

// How many elements each rank sends to each other one, in all_to_all, gather and scatter.
//
// Usually every pair exchanges the same count, every rank knows it, and the fingerprint covers it. When a rank's counts differ
// it shows them (two rows behind its control block: what it sends, what it expects), and every rank reads everybody's rows: so all
// know how many chunks there are, and all see the same error when a sender and a receiver disagree.
class PairCounts {
 public:
  // Counts of this rank's call. `uniform` when one number says it all.
  void set_own(const Call& call, int rank, int size);  // also this rank's row of sent()
  bool uniform() const { return uniform_; }
  std::uint64_t uniform_count() const { return count_; }

  void show(Members& members, std::uint64_t turn) const;
  // All ranks called the same with the same uniform count.
  void assume_uniform(const Call& call, int size);
  // Reads and checks everybody's rows.
  Status read_all(Members& members, const Operation& op);

  std::uint64_t sent(int from, int to) const { return matrix_[index(from, to)]; }

 private:
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to);
  }

  int size_ = 0;
  bool uniform_ = true;
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> sends_;
  std::vector<std::uint64_t> expects_;
  std::vector<std::uint64_t> matrix_;
};

}  // namespace customccl::shm
