#include "engines/shm/pair_counts.h"

#include <algorithm>

namespace customccl::shm {

namespace {

// In the first word of what a rank shows: the rest of it is the one number that says it all.
constexpr std::uint64_t kUniform = std::uint64_t{1} << 63;

bool says_it_all(const std::uint64_t* row) { return (row[0] & kUniform) != 0; }
std::uint64_t count_in(const std::uint64_t* row) { return row[0] & ~kUniform; }

}  // namespace

void PairCounts::set_own(const Call& call, int rank, int size) {
  op_ = call.op;
  root_ = call.root;
  size_ = size;
  count_ = call.op == Op::kScatter ? call.outputs[0].count : call.inputs[0].count;
  const auto same = [this](const View& view) { return view.count == count_; };
  uniform_ = std::all_of(call.inputs.begin(), call.inputs.end(), same) &&
             std::all_of(call.outputs.begin(), call.outputs.end(), same);
  const auto n = static_cast<std::size_t>(size);
  rows_.resize(n);
  if (uniform_) {
    const std::size_t receivers = call.op == Op::kGather ? 1 : n - 1;
    rows_[0] = {receivers, receivers * count_, count_, true};
    return;
  }
  sends_.assign(n, 0);
  expects_.assign(n, 0);
  const bool one_receiver = call.op == Op::kGather;
  const bool one_sender = call.op == Op::kScatter;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    sends_[one_receiver ? static_cast<std::size_t>(call.root) : i] = call.inputs[i].count;
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    expects_[one_sender ? static_cast<std::size_t>(call.root) : i] = call.outputs[i].count;
  }
  matrix_.resize(n * n);
  std::copy(sends_.begin(), sends_.end(), matrix_.begin() + static_cast<std::ptrdiff_t>(index(rank, 0)));
  sum_up(rank, false);
}

void PairCounts::sum_up(int from, bool alike) {
  Row row;
  row.alike = alike;
  for (int to = 0; to < size_; ++to) {
    if (!counts(from, to)) continue;
    const std::size_t count = sent(from, to);
    ++row.receivers;
    row.total += count;
    row.longest = std::max(row.longest, count);
  }
  rows_[static_cast<std::size_t>(from)] = row;
}

void PairCounts::show(Members& members, std::uint64_t turn) const {
  std::uint64_t* row = members.own().counts(turn, size_);
  if (uniform_) {
    row[0] = kUniform | count_;
    return;
  }
  std::copy(sends_.begin(), sends_.end(), row);
  std::copy(expects_.begin(), expects_.end(), row + size_);
}

Status PairCounts::read_all(Members& members, const Operation& op) {
  const auto n = static_cast<std::size_t>(size_);
  uniform_ = false;
  matrix_.resize(n * n);
  for (int member = 0; member < size_; ++member) {
    const std::uint64_t* row = members.of(member).counts(op.first_turn, size_);
    for (int other = 0; other < size_; ++other) {
      matrix_[index(member, other)] = says_it_all(row) ? uniform_sent(member, other, count_in(row)) : row[other];
    }
    sum_up(member, says_it_all(row));
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
