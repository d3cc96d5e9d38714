#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engines/operation.h"
#include "engines/shm/members.h"

namespace customccl::shm {

// How one sender of them lays its blocks out.
struct Outgoing {
  std::size_t chunk = 0;  // elements per receiver and phase
  std::size_t chunks = 0;
  Room room;  // of one phase
  bool in_line() const { return room.bytes == 0; }
};

// How many elements each rank sends to each other one, in all_to_all, gather and scatter.
//
// Usually one number says it all, every rank knows it, and the fingerprint covers it. Behind its control block each rank shows that
// number or, where its counts differ, two rows: what it sends, what it expects. When any rank's counts differ, every rank reads
// everybody's: so all know how many chunks there are, and all see the same error when a sender and a receiver disagree.
//
// Two ranks need none of that. What one sends the other expects, so each knows both numbers by its own call; the fingerprint covers them,
// and what a rank has for itself concerns nobody else. So it is where that is little, so that no tensors are shown (shown_tensors.h).
// Only when the fingerprints differ do they show their counts: one has sent what the other does not expect, or does not call this little.
class PairCounts {
 public:
  // Counts of this rank's call. most: elements that are little.
  [[gnu::hot]] void set_own(const Call& call, int rank, int size, std::size_t most);
  // Whether one number says it all: of this rank's counts, or after read_all() of everybody's.
  bool uniform() const { return uniform_; }
  // Whether they are those of two ranks that have little for each other.
  bool of_two() const { return of_two_; }
  // Whether this rank's call tells them all, if the fingerprints are the same.
  bool told() const { return uniform_ || of_two_; }
  std::uint64_t uniform_count() const { return count_; }

  // What a rank has for others. In all_to_all it has something, perhaps nothing, for each.
  struct Row {
    std::size_t receivers = 0;
    std::size_t total = 0;  // elements
    std::size_t longest = 0;
    bool alike = false;  // one number says what it sends to others and expects of them
  };
  // Of this rank; of any where they are told(), or after read_all().
  const Row& row(int from) const { return rows_[place_of(from)]; }
  bool counts(int from, int to) const { return from != to && (op_ == Op::kAllToAll || sent(from, to) != 0); }
  // Whether the rank has anything, perhaps nothing, for any other.
  bool sends(int from) const { return op_ == Op::kAllToAll || (op_ == Op::kGather ? from != root_ : from == root_); }
  // Elements that a rank, of which the row is known, has for all others.
  std::uint64_t sent_by(int from) const { return uniform_ && !sends(from) ? 0 : row(from).total; }

  // personal.cpp's, by the row.
  Outgoing& outgoing(int from) { return outgoing_[place_of(from)]; }
  const Outgoing& outgoing(int from) const { return outgoing_[place_of(from)]; }

  // `call`: the one of set_own().
  [[gnu::hot]] void show(Members& members, const Call& call, std::uint64_t turn) const;
  // Reads and checks everybody's. Without it everybody's are taken to be what this rank's call tells.
  Status read_all(Members& members, const Operation& op);

  std::uint64_t sent(int from, int to) const {
    return uniform_ ? uniform_sent(from, to, count_) : matrix_[index(from, to)];
  }

 private:
  // Of a rank's row: where one number says it all there is one.
  std::size_t place_of(int from) const { return uniform_ ? 0 : static_cast<std::size_t>(from); }
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(to);
  }
  std::uint64_t* row_of(int from) { return &matrix_[index(from, 0)]; }
  const std::uint64_t* row_of(int from) const { return &matrix_[index(from, 0)]; }
  void sum_up(int from, bool alike);
  std::uint64_t uniform_sent(int from, int to, std::uint64_t count) const {
    if (op_ == Op::kAllToAll) return count;
    return (op_ == Op::kGather ? to : from) == root_ ? count : 0;
  }

  Op op_ = Op::kAllToAll;
  int root_ = 0;
  int size_ = 0;
  bool uniform_ = true;
  bool of_two_ = false;
  std::uint64_t count_ = 0;
  std::vector<Row> rows_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::uint64_t> matrix_;  // only where not uniform
};

}  // namespace customccl::shm
