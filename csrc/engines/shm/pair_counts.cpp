#include "engines/shm/pair_counts.h"

#include <algorithm>

namespace customccl::shm {

namespace {

// In the first word of what a rank shows: the rest of it is the one number that says it all.
constexpr std::uint64_t kUniform = std::uint64_t{1} << 63;

bool says_it_all(const std::uint64_t* row) { return (row[0] & kUniform) != 0; }
std::uint64_t count_in(const std::uint64_t* row) { return row[0] & ~kUniform; }

// The counts of a call's blocks as a row of `size`: of all ranks, of `one`, or of nobody.
constexpr int kAll = -1;
void lay_down(std::span<const View> blocks, int one, std::uint64_t* row, int size) {
  if (one != kAll || blocks.empty()) std::fill_n(row, size, 0);
  if (one != kAll) row += one;
  for (const View& block : blocks) *row++ = block.count;
}

std::uint64_t expected_of(const Call& call, int from) {
  if (call.op == Op::kScatter) return from == call.root ? call.outputs[0].count : 0;
  return call.outputs.empty() ? 0 : call.outputs[static_cast<std::size_t>(from)].count;
}

}  // namespace

void PairCounts::set_own(const Call& call, int rank, int size, std::size_t most) {
  op_ = call.op;
  root_ = call.root;
  size_ = size;
  count_ = call.op == Op::kScatter ? call.outputs[0].count : call.inputs[0].count;
  const auto same = [this](const View& view) { return view.count == count_; };
  uniform_ = std::all_of(call.inputs.begin(), call.inputs.end(), same) &&
             std::all_of(call.outputs.begin(), call.outputs.end(), same);
  const auto n = static_cast<std::size_t>(size);
  rows_.resize(n);
  outgoing_.resize(n);
  if (uniform_) {
    const std::size_t receivers = call.op == Op::kGather ? 1 : n - 1;
    rows_[0] = {receivers, receivers * count_, count_, true};
    of_two_ = size == 2 && count_ <= most;
    return;
  }
  matrix_.resize(n * n);
  lay_down(call.inputs, call.op == Op::kGather ? root_ : kAll, row_of(rank), size);
  of_two_ = false;
  if (size != 2) return sum_up(rank, false);
  const int peer = 1 - rank;
  const std::uint64_t sent = row_of(rank)[peer];
  const std::uint64_t expected = expected_of(call, peer);
  of_two_ = std::max(sent, expected) <= most && row_of(rank)[rank] == expected_of(call, rank);
  row_of(peer)[rank] = expected;
  row_of(peer)[peer] = 0;  // nobody else's business
  sum_up(rank, sent == expected);
  sum_up(peer, sent == expected);
}

void PairCounts::sum_up(int from, bool alike) {
  const std::uint64_t* const row = row_of(from);
  Row sum;
  sum.alike = alike;
  for (int to = 0; to < size_; ++to) {
    if (to == from || (row[to] == 0 && op_ != Op::kAllToAll)) continue;
    ++sum.receivers;
    sum.total += row[to];
    sum.longest = std::max(sum.longest, row[to]);
  }
  rows_[static_cast<std::size_t>(from)] = sum;
}

void PairCounts::show(Members& members, const Call& call, std::uint64_t turn) const {
  std::uint64_t* row = members.own().counts(turn, size_);
  if (uniform_) {
    row[0] = kUniform | count_;
    return;
  }
  std::copy_n(row_of(members.rank()), size_, row);
  lay_down(call.outputs, call.op == Op::kScatter ? root_ : kAll, row + size_, size_);
}

Status PairCounts::read_all(Members& members, const Operation& op) {
  const auto n = static_cast<std::size_t>(size_);
  uniform_ = of_two_ = false;
  matrix_.resize(n * n);
  for (int member = 0; member < size_; ++member) {
    const std::uint64_t* const row = members.of(member).counts(op.first_turn, size_);
    bool alike = says_it_all(row);
    if (alike) {
      for (int to = 0; to < size_; ++to) row_of(member)[to] = uniform_sent(member, to, count_in(row));
    } else {
      std::copy_n(row, size_, row_of(member));
      if (size_ == 2) alike = row[1 - member] == row[size_ + 1 - member];
    }
    sum_up(member, alike);
  }
  for (int to = 0; to < size_; ++to) {
    const std::uint64_t* row = members.of(to).counts(op.first_turn, size_);
    for (int from = 0; from < size_; ++from) {
      const std::uint64_t sent = matrix_[index(from, to)];
      const std::uint64_t expected = says_it_all(row) ? uniform_sent(from, to, count_in(row)) : row[size_ + from];
      if (sent == expected) continue;
      return {Code::kMismatch,
              members.describe(from) + " sends " + std::to_string(sent) + " elements to " + members.describe(to) +
                  ", which expects " + std::to_string(expected),
              members.global_rank(from)};
    }
  }
  return {};
}

}  // namespace customccl::shm
