#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <forward_list>
#include <span>

#include "base/call.h"
#include "base/extent.h"
#include "c10d/compat.h"
#include "c10d/types.h"
#include "platform/clock.h"

namespace customccl::torch_shim {

// Tensors as a Call: checks them one by one, and owns the views and layouts that the Call points to. Lives on the stack for a
// synchronous call; moves into its task for an asynchronous one, together with references to the tensors.
// Every check throws ValueError, TypeError or RuntimeError with the offending values, before anything is sent.
class PreparedCall {
 public:
  explicit PreparedCall(Op op) { call_.op = op; }
  PreparedCall(PreparedCall&&) = default;
  [[gnu::hot]] ~PreparedCall() = default;

  // The tensor's elements in logical order. Outputs must not overlap themselves.
  void add_input(const at::Tensor& tensor) { inputs_.push_back(view_of(tensor, false)); }
  void add_output(const at::Tensor& tensor) { outputs_.push_back(view_of(tensor, true)); }
  // One per rank. They must not overlap each other either.
  void add_outputs(const std::vector<at::Tensor>& tensors) {
    for (const at::Tensor& tensor : tensors) add_output(tensor);
    check_apart();
  }
  // In place: the output is the input, too.
  void use_output_as_input() { in_place_ = true; }
  // `parts` equal blocks, in logical order.
  void split_input(const at::Tensor& tensor, std::size_t parts);
  void split_output(const at::Tensor& tensor, std::size_t parts);
  // all_to_all: one block per rank, of the given numbers of rows (first dimension), or of equal ones if none are given.
  void add_splits(const at::Tensor& tensor, std::span<const std::int64_t> rows, int parts, bool output);

  // After the tensors: an input that lies on an output is copied, as what arrives may come before it has left. But not one that lies
  // exactly on its counterpart (in place), which the engines know: the block of the same rank, `rank`'s own where there is one tensor.
  void copy_overlapped_inputs(int rank) {
    const std::size_t element = size_of(call_.dtype);
    if (C10_UNLIKELY(extent_of(inputs_, element).meets(extent_of(outputs_, element)))) copy_overlapped(rank);
  }

  // Of calls that go out one after the other, as one: an input that lies on an output of an earlier call is copied, too.
  static void copy_inputs_on_outputs_of_others(std::span<PreparedCall> calls);

  // all_to_all: what a rank sends to itself is what it expects from itself.
  void check_own_block(int rank) const;
  void set_root(std::int64_t root, int size, std::int64_t root_tensor = 0);
  // After the tensors.
  void set_reduce_op(const ::c10d::ReduceOp& op) {
    call_.reduce_op = reduce_op_of(op);
    if (C10_UNLIKELY(!is_defined(call_.reduce_op, call_.dtype))) refuse_undefined();
    if (C10_UNLIKELY(call_.reduce_op == ReduceOp::kPremulSum)) take_factor(op);
  }
  void set_timeout(std::chrono::milliseconds timeout) {
    if (C10_UNLIKELY(timeout.count() > 0)) call_.timeout = to_limit(timeout);
  }

  Call& call() { return call_; }
  // Points `call` to the views held here.
  void attach(Call& call) const {
    const Views& inputs = in_place_ ? outputs_ : inputs_;
    call.inputs = {inputs.data(), inputs.size()};
    call.outputs = {outputs_.data(), outputs_.size()};
  }
  const Call& sealed() {
    attach(call_);
    return call_;
  }

 private:
  using Views = c10::SmallVector<View, 4>;
  static Extent extent_of(const Views& views, std::size_t element) {
    Extent all;
    for (const View& view : views) {
      if (view.count == 0) continue;  // it may lie nowhere
      const Extent extent = customccl::extent_of(view, element);
      all.begin = all.begin == nullptr ? extent.begin : std::min(all.begin, extent.begin);
      all.end = std::max(all.end, extent.end);
    }
    return all;
  }
  [[gnu::cold, gnu::noinline]] void copy_overlapped(int rank);
  Extent inputs_extent() const { return extent_of(in_place_ ? outputs_ : inputs_, size_of(call_.dtype)); }
  Extent outputs_extent() const { return extent_of(outputs_, size_of(call_.dtype)); }
  void copy_inputs_on_outputs_of(const PreparedCall& other);
  void copy_input(View& input);
  [[gnu::hot]] View view_of(const at::Tensor& tensor, bool output);
  void check_kind(const at::Tensor& tensor) const;
  void check_overlap(const at::Tensor& output) const;
  void check_apart() const;
  void take_dtype(DType dtype) {
    if (C10_UNLIKELY(has_dtype_ && dtype != call_.dtype)) refuse_dtype(dtype);
    call_.dtype = dtype;
    has_dtype_ = true;
  }
  [[noreturn, gnu::cold]] void refuse_dtype(DType dtype) const;
  [[noreturn, gnu::cold]] void refuse_undefined() const;
  [[gnu::cold]] void take_factor(const ::c10d::ReduceOp& op);
  const Layout* layout_of(const at::Tensor& tensor);  // of one that is not contiguous
  static void split(Views& views, const View& whole, std::size_t parts);

  Call call_;
  bool has_dtype_ = false;
  bool in_place_ = false;
  Views inputs_;
  Views outputs_;
  std::forward_list<Layout> layouts_;     // of strided tensors; nodes stay where they are when this moves
  std::forward_list<at::Tensor> copies_;  // of overlapped inputs
};

}  // namespace customccl::torch_shim
