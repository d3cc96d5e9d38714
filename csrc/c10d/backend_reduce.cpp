#include "c10d/launch.h"
#include "c10d/tensor_checks.h"

// The operations that reduce: all_reduce, reduce, reduce_scatter, in all their c10d forms.

namespace customccl::torch_shim {

PreparedCall CustomBackend::prepare_all_reduce(const at::Tensor& tensor,
                                               const ::c10d::AllreduceOptions& options) const {
  PreparedCall prepared(Op::kAllReduce);
  prepared.add_output(tensor);
  prepared.use_output_as_input();
  prepared.set_reduce_op(options.reduceOp);
  prepared.set_timeout(options.timeout);
  return prepared;
}

CustomBackend::WorkPtr CustomBackend::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors, Op::kAllReduce, "tensor");
  if (C10_UNLIKELY(tensor.is_sparse())) return allreduce_sparse(tensors, options);
  return launch(prepare_all_reduce(tensor, options), options.asyncOp,
                {::c10d::OpType::ALLREDUCE, "customccl:all_reduce"}, [&] { return Held{tensors, tensors}; });
}

void CustomBackend::all_reduce(const at::Tensor& tensor, const ::c10d::ReduceOp& op) {
  ::c10d::AllreduceOptions options;
  options.reduceOp = op;
  options.asyncOp = false;
  Tensors tensors{tensor};
  allreduce(tensors, options);
}

CustomBackend::WorkPtr CustomBackend::allreduce_coalesced(Tensors& tensors,
                                                          const ::c10d::AllreduceCoalescedOptions& options) {
  std::vector<PreparedCall> calls;
  for (const at::Tensor& tensor : tensors) calls.push_back(prepare_all_reduce(tensor, options));
  return launch_all(std::move(calls), options.asyncOp,
                    {::c10d::OpType::ALLREDUCE_COALESCED, "customccl:all_reduce_coalesced"}, {tensors, tensors});
}

CustomBackend::WorkPtr CustomBackend::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  at::Tensor& tensor = only(tensors, Op::kReduce, "tensor");
  PreparedCall prepared(Op::kReduce);
  prepared.set_root(options.rootRank, getSize(), options.rootTensor);
  if (options.rootRank == getRank()) {
    prepared.add_output(tensor);
    prepared.use_output_as_input();
  } else {
    prepared.add_input(tensor);
  }
  prepared.set_reduce_op(options.reduceOp);
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::REDUCE, "customccl:reduce"},
                [&] { return Held{tensors, tensors}; });
}

CustomBackend::WorkPtr CustomBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const ::c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, Op::kReduceScatter, "output tensor");
  const Tensors& blocks = only(inputs, Op::kReduceScatter, "list of input tensors");
  TORCH_CHECK_VALUE(blocks.size() == size(), "customccl: reduce_scatter needs one input tensor per rank: got ",
                    blocks.size(), " in a group of ", size());
  const at::Tensor& own = blocks[static_cast<std::size_t>(getRank())];
  TORCH_CHECK_VALUE(own.numel() == output.numel(), "customccl: reduce_scatter got an output of ", output.numel(),
                    " elements (sizes ", output.sizes(), ") for an input block of ", own.numel(), " (sizes ",
                    own.sizes(), ")");
  PreparedCall prepared(Op::kReduceScatter);
  prepared.add_output(output);
  for (const at::Tensor& block : blocks) prepared.add_input(block);
  prepared.set_reduce_op(options.reduceOp);
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::REDUCE_SCATTER, "customccl:reduce_scatter"},
                [&] { return Held{blocks, outputs}; });
}

PreparedCall CustomBackend::prepare_reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                                   const ::c10d::ReduceScatterOptions& options) const {
  TORCH_CHECK_VALUE(is_many(input, output, getSize()), "customccl: reduce_scatter needs an input of ", getSize(),
                    " times the output's elements: input has ", input.numel(), " (sizes ", input.sizes(), "), output ",
                    output.numel(), " (sizes ", output.sizes(), ")");
  PreparedCall prepared(Op::kReduceScatter);
  prepared.add_output(output);
  prepared.split_input(input, size());
  prepared.set_reduce_op(options.reduceOp);
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return prepared;
}

CustomBackend::WorkPtr CustomBackend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                           const ::c10d::ReduceScatterOptions& options) {
  return launch(prepare_reduce_scatter(output, input, options), options.asyncOp,
                {::c10d::OpType::_REDUCE_SCATTER_BASE, "customccl:_reduce_scatter_base"},
                [&] { return Held{input, output}; });
}

CustomBackend::WorkPtr CustomBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const ::c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "customccl: reduce_scatter_tensor_coalesced got ", outputs.size(),
                    " outputs and ", inputs.size(), " inputs");
  std::vector<PreparedCall> calls;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    calls.push_back(prepare_reduce_scatter(outputs[i], inputs[i], options));
  return launch_all(std::move(calls), options.asyncOp,
                    {::c10d::OpType::COALESCED, "customccl:reduce_scatter_tensor_coalesced"}, {inputs, outputs});
}

}  // namespace customccl::torch_shim
