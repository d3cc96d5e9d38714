#include "engines/shm/pair_counts.h"

#include <algorithm>

namespace customccl::shm {

void PairCounts::set_own(const Call& call, int rank, int size) {
  size_ = size;
  const auto n = static_cast<std::size_t>(size);
  sends_.assign(n, 0);
  expects_.assign(n, 0);
  if (call.op == Op::kGather) {
    sends_[static_cast<std::size_t>(call.root)] = call.inputs[0].count;
    for (std::size_t i = 0; i < call.outputs.size(); ++i) expects_[i] = call.outputs[i].count;
  } else if (call.op == Op::kScatter) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) sends_[i] = call.inputs[i].count;
    expects_[static_cast<std::size_t>(call.root)] = call.outputs[0].count;
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      sends_[i] = call.inputs[i].count;
      expects_[i] = call.outputs[i].count;
    }
  }
  count_ = call.op == Op::kScatter ? call.outputs[0].count : call.inputs[0].count;
  const auto same = [this](const View& view) { return view.count == count_; };
  uniform_ = std::all_of(call.inputs.begin(), call.inputs.end(), same) &&
             std::all_of(call.outputs.begin(), call.outputs.end(), same);
  matrix_.resize(n * n);
  std::copy(sends_.begin(), sends_.end(), matrix_.begin() + static_cast<std::ptrdiff_t>(index(rank, 0)));
}

void PairCounts::show(Members& members, std::uint64_t turn) const {
  std::uint64_t* row = members.own().counts(turn, size_);
  std::copy(sends_.begin(), sends_.end(), row);
  std::copy(expects_.begin(), expects_.end(), row + size_);
}

void PairCounts::assume_uniform(const Call& call, int size) {
  matrix_.assign(static_cast<std::size_t>(size) * static_cast<std::size_t>(size),
                 call.op == Op::kAllToAll ? count_ : 0);
  if (call.op == Op::kAllToAll) return;
  for (int member = 0; member < size; ++member) {
    matrix_[call.op == Op::kGather ? index(member, call.root) : index(call.root, member)] = count_;
  }
}

Status PairCounts::read_all(Members& members, const Operation& op) {
  const auto n = static_cast<std::size_t>(size_);
  matrix_.resize(n * n);
  std::vector<std::uint64_t> expected(n * n);  // [from][to], as the receiver says
  for (int member = 0; member < size_; ++member) {
    const std::uint64_t* row = members.of(member).counts(op.first_turn, size_);
    for (int other = 0; other < size_; ++other) {
      matrix_[index(member, other)] = row[other];
      expected[index(other, member)] = row[size_ + other];
    }
  }
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      if (matrix_[index(from, to)] == expected[index(from, to)]) continue;
      return {Code::kMismatch,
              members.describe(from) + " sends " + std::to_string(matrix_[index(from, to)]) + " elements to " +
                  members.describe(to) + ", which expects " + std::to_string(expected[index(from, to)]),
              members.global_rank(from)};
    }
  }
  return {};
}

}  // namespace customccl::shm
