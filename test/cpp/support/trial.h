#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/call.h"
#include "platform/clock.h"
#include "support/checked.h"
#include "support/dice.h"
#include "support/pattern.h"
#include "support/tensor.h"

namespace customccl::test {

// One collective with everything that all ranks must agree on, and what each chooses for itself (shapes).
struct Trial {
  Op op = Op::kBarrier;
  int size = 1;
  DType dtype = DType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  int root = 0;
  // all_reduce, reduce, broadcast: {count}. all_gather, reduce_scatter: a count per rank. gather, scatter: a count per rank
  // other than the root too. all_to_all: [from * size + to].
  std::vector<std::size_t> counts;
  bool in_place = false;
  bool joined = false;  // a rank's blocks for its peers lie one after the other, where their shape is plain or shared
  Shape input_shape = Shape::kPlain;
  Shape output_shape = Shape::kPlain;
  std::uint64_t seed = 0;  // makes the values
  Nanos timeout{0};

  std::string describe() const;
};

// How many counts a trial of this operation has.
std::size_t count_entries(Op op, int size);
// The same count everywhere.
Trial even_trial(Op op, int size, DType dtype, std::size_t count);
// Any operation, dtype, counts up to about `most_bytes` in all, shapes: the same on every rank for the same dice.
Trial random_trial(Dice& dice, int size, std::size_t most_bytes);
std::complex<double> factor_of(int rank);  // for PREMUL_SUM

// One rank's part of a trial: tensors, call, and what must come out (an oracle of its own, see kernels/oracle.h).
class Part final : public Checked {
 public:
  Part(const Trial& trial, int rank);
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  const Call& call() const override { return call_; }
  std::string verify() const override;
  std::vector<std::byte> output(std::size_t index = 0) const {
    const auto elements = outputs_[index]->elements();
    return {elements.begin(), elements.end()};
  }

 private:
  std::size_t count_between(int from, int to) const;
  std::uint64_t source_of(int from, int to) const;
  void make_inputs();
  void make_outputs();
  Pattern expected(std::size_t output) const;
  Pattern reduced(std::size_t needed) const;
  bool overwritten(const Tensor* input) const;

  Trial trial_;
  int rank_;
  std::shared_ptr<Tensor> whole_input_;  // of which the inputs are parts, where they are joined
  std::vector<std::shared_ptr<Tensor>> inputs_;
  std::vector<std::shared_ptr<Tensor>> outputs_;
  std::vector<View> input_views_;
  std::vector<View> output_views_;
  Call call_;
};

}  // namespace customccl::test
