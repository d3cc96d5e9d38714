#include "support/trial.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "kernels/oracle.h"

namespace customccl::test {

namespace {

bool has_block_per_peer(Op op) { return op == Op::kAllToAll || op == Op::kScatter || op == Op::kReduceScatter; }

DType random_dtype(Dice& dice, ReduceOp reduce_op, bool reduces) {
  for (;;) {
    const DType dtype = kDTypes[dice.below(kDTypes.size())].dtype;
    if (!reduces || is_defined(reduce_op, dtype)) return dtype;
  }
}

// Mostly small, often around the limits where the algorithm changes, sometimes large.
std::size_t random_count(Dice& dice, std::size_t most) {
  switch (dice.below(std::uint64_t{6})) {
    case 0: return dice.below(std::uint64_t{4});
    case 1: return dice.below(std::uint64_t{64});
    case 2:
    case 3: return dice.below(std::uint64_t{4096}) % (most + 1);
    default: return dice.below(most + 1);
  }
}

// In place, as much comes from a rank as goes to it.
void make_symmetric(Trial& trial) {
  const auto n = static_cast<std::size_t>(trial.size);
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < from; ++to) trial.counts[from * n + to] = trial.counts[to * n + from];
  }
}

}  // namespace

std::complex<double> factor_of(int rank) { return {0.5 + rank, 0}; }

std::size_t count_entries(Op op, int size) {
  const auto n = static_cast<std::size_t>(size);
  switch (op) {
    case Op::kAllReduce:
    case Op::kReduce:
    case Op::kBroadcast: return 1;
    case Op::kAllToAll: return n * n;
    case Op::kBarrier: return 0;
    default: return n;
  }
}

std::string Trial::describe() const {
  std::ostringstream text;
  text << name(op) << " n=" << size << ' ' << name(dtype) << ' ' << name(reduce_op) << " root " << root
       << (in_place ? " in place" : "") << (joined ? " joined" : "") << " shapes " << static_cast<int>(input_shape)
       << static_cast<int>(output_shape) << " seed " << seed << " counts";
  for (const std::size_t count : counts) text << ' ' << count;
  return text.str();
}

Trial even_trial(Op op, int size, DType dtype, std::size_t count) {
  Trial trial;
  trial.op = op;
  trial.size = size;
  trial.dtype = dtype;
  trial.counts.assign(count_entries(op, size), count);
  return trial;
}

Trial random_trial(Dice& dice, int size, std::size_t most_bytes) {
  Trial trial;
  trial.op = static_cast<Op>(dice.below(static_cast<int>(Op::kBarrier) + 1));
  trial.size = size;
  trial.reduce_op = static_cast<ReduceOp>(dice.below(kReduceOpNames.size()));
  trial.dtype = random_dtype(dice, trial.reduce_op, info(trial.op).reduces);
  trial.root = dice.below(size);
  const std::size_t entries = count_entries(trial.op, size);
  const std::size_t most = most_bytes / size_of(trial.dtype) / std::max<std::size_t>(entries, 1);
  const bool even = dice.one_in(2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t count = dice.one_in(5) ? 0 : random_count(dice, most);
    trial.counts.push_back(even && i > 0 ? trial.counts[0] : count);
  }
  trial.in_place = dice.one_in(3);
  trial.joined = dice.one_in(2);
  if (trial.op == Op::kAllToAll && trial.in_place) make_symmetric(trial);
  trial.input_shape = static_cast<Shape>(dice.one_in(2) ? 0 : dice.below(kShapes));
  trial.output_shape = static_cast<Shape>(dice.one_in(2) ? 0 : dice.below(kShapes));
  trial.seed = dice.below(std::uint64_t{1000});
  return trial;
}

Part::Part(const Trial& trial, int rank) : trial_(trial), rank_(rank) {
  make_inputs();
  make_outputs();
  for (const auto& tensor : inputs_) input_views_.push_back(tensor->view());
  for (const auto& tensor : outputs_) output_views_.push_back(tensor->view());
  call_.op = trial.op;
  call_.dtype = trial.dtype;
  if (info(trial.op).reduces) call_.reduce_op = trial.reduce_op;
  if (info(trial.op).has_root) call_.root = trial.root;
  call_.factor = factor_of(rank);
  call_.inputs = input_views_;
  call_.outputs = output_views_;
  call_.timeout = trial.timeout;
}

// Elements that travel from one rank to another (or that one contributes to the other's result).
std::size_t Part::count_between(int from, int to) const {
  const auto index = [](int rank) { return static_cast<std::size_t>(rank); };
  switch (trial_.op) {
    case Op::kAllToAll: return trial_.counts[index(from) * index(trial_.size) + index(to)];
    case Op::kAllGather:
    case Op::kGather: return trial_.counts[index(from)];
    case Op::kReduceScatter:
    case Op::kScatter: return trial_.counts[index(to)];
    case Op::kBarrier: return 0;
    default: return trial_.counts[0];
  }
}

// Values differ per sender, and per receiver where each gets a block of its own.
std::uint64_t Part::source_of(int from, int to) const {
  const int block = has_block_per_peer(trial_.op) ? to + 1 : 0;
  return trial_.seed * 100'000 + static_cast<std::uint64_t>(from * 300 + block);
}

void Part::make_inputs() {
  const bool root_only = trial_.op == Op::kBroadcast || trial_.op == Op::kScatter;
  if (trial_.op == Op::kBarrier || (root_only && rank_ != trial_.root)) return;
  const int blocks = has_block_per_peer(trial_.op) ? trial_.size : 1;
  const auto count_for = [&](int to) { return count_between(rank_, blocks == 1 ? rank_ : to); };
  if (trial_.joined && blocks > 1 && is_consecutive(trial_.input_shape)) {
    std::size_t total = 0;
    for (int to = 0; to < blocks; ++to) total += count_for(to);
    whole_input_ = std::make_shared<Tensor>(trial_.dtype, total, trial_.input_shape);
  }
  std::size_t before = 0;
  for (int to = 0; to < blocks; ++to) {
    const std::size_t count = count_for(to);
    auto tensor = whole_input_ != nullptr ? whole_input_->part(before, count)
                                          : std::make_shared<Tensor>(trial_.dtype, count, trial_.input_shape);
    before += count;
    tensor->write(Pattern(trial_.dtype, source_of(rank_, to), count));
    inputs_.push_back(std::move(tensor));
  }
}

void Part::make_outputs() {
  const bool root_only = trial_.op == Op::kReduce || trial_.op == Op::kGather;
  const bool others_only = trial_.op == Op::kBroadcast;
  if (trial_.op == Op::kBarrier || (root_only && rank_ != trial_.root) || (others_only && rank_ == trial_.root)) return;
  const bool many = trial_.op == Op::kAllGather || trial_.op == Op::kGather || trial_.op == Op::kAllToAll;
  for (int from = 0; from < (many ? trial_.size : 1); ++from) {
    outputs_.push_back(
        std::make_shared<Tensor>(trial_.dtype, count_between(many ? from : trial_.root, rank_), trial_.output_shape));
  }
  if (!trial_.in_place || inputs_.empty()) return;
  if (trial_.op == Op::kAllToAll) {
    outputs_ = inputs_;
    return;
  }
  const auto own = static_cast<std::size_t>(rank_);
  outputs_[outputs_.size() == 1 ? 0 : own] = inputs_[inputs_.size() == 1 ? 0 : own];
}

Pattern Part::reduced(std::size_t needed) const {
  const std::size_t element = size_of(trial_.dtype);
  needed = std::min(needed, Pattern::kPeriod);
  std::vector<std::vector<std::byte>> contributions;
  for (int from = 0; from < trial_.size; ++from) {
    contributions.push_back(Pattern(trial_.dtype, source_of(from, rank_), needed).take(needed));
    if (trial_.reduce_op != ReduceOp::kPremulSum) continue;
    for (std::size_t i = 0; i < needed; ++i) {
      std::byte* value = contributions.back().data() + i * element;
      expected_scale(trial_.dtype, value, factor_of(from), value);
    }
  }
  std::vector<std::byte> period(needed * element);
  std::vector<const std::byte*> sources(contributions.size());
  for (std::size_t i = 0; i < needed; ++i) {
    for (std::size_t k = 0; k < sources.size(); ++k) sources[k] = contributions[k].data() + i * element;
    expected_reduce(trial_.dtype, trial_.reduce_op, sources, period.data() + i * element);
  }
  return {trial_.dtype, std::move(period)};
}

Pattern Part::expected(std::size_t output) const {
  const std::size_t count = outputs_[output]->count();
  if (info(trial_.op).reduces) return reduced(count);
  const bool many = trial_.op == Op::kAllGather || trial_.op == Op::kGather || trial_.op == Op::kAllToAll;
  return {trial_.dtype, source_of(many ? static_cast<int>(output) : trial_.root, rank_), count};
}

bool Part::overwritten(const Tensor* input) const {
  return std::any_of(outputs_.begin(), outputs_.end(), [&](const auto& output) { return output.get() == input; });
}

std::string Part::verify() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::int64_t wrong = expected(i).first_difference(outputs_[i]->elements());
    if (wrong >= 0) return "output " + std::to_string(i) + " is wrong from element " + std::to_string(wrong) + " on";
    if (!outputs_[i]->poison_intact()) return "memory around output " + std::to_string(i) + " was written";
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (overwritten(inputs_[i].get())) continue;
    const Pattern before(trial_.dtype, source_of(rank_, static_cast<int>(i)), inputs_[i]->count());
    if (before.first_difference(inputs_[i]->elements()) >= 0) return "input " + std::to_string(i) + " was changed";
    if (!inputs_[i]->poison_intact()) return "memory around input " + std::to_string(i) + " was written";
  }
  if (whole_input_ != nullptr && !whole_input_->poison_intact()) return "memory around the inputs was written";
  return "";
}

}  // namespace customccl::test
