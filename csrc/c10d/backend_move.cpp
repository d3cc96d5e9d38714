#include "c10d/errors.h"
#include "c10d/launch.h"
#include "c10d/monitored_barrier.h"
#include "c10d/tensor_checks.h"

// The operations that move data without computing: broadcast, all_gather, gather, scatter, all_to_all, barrier.

namespace customccl::torch_shim {

CustomBackend::WorkPtr CustomBackend::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors, Op::kBroadcast, "tensor");
  PreparedCall prepared(Op::kBroadcast);
  prepared.set_root(options.rootRank, getSize(), options.rootTensor);
  options.rootRank == getRank() ? prepared.add_input(tensor) : prepared.add_output(tensor);
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::BROADCAST, "customccl:broadcast"},
                [&] { return Held{tensors, tensors}; });
}

PreparedCall CustomBackend::prepare_all_gather_list(const Tensors& outputs, const at::Tensor& input,
                                                    const ::c10d::AllgatherOptions& options) const {
  TORCH_CHECK_VALUE(outputs.size() == size(), "customccl: all_gather needs one output tensor per rank: got ",
                    outputs.size(), " in a group of ", size());
  const at::Tensor& own = outputs[static_cast<std::size_t>(getRank())];
  TORCH_CHECK_VALUE(own.numel() == input.numel(), "customccl: all_gather got an output of ", own.numel(),
                    " elements for this rank's input of ", input.numel(), " (sizes ", own.sizes(), " and ",
                    input.sizes(), ")");
  PreparedCall prepared(Op::kAllGather);
  prepared.add_input(input);
  prepared.add_outputs(outputs);
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return prepared;
}

CustomBackend::WorkPtr CustomBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const ::c10d::AllgatherOptions& options) {
  const Tensors& list = only(outputs, Op::kAllGather, "list of output tensors");
  return launch(prepare_all_gather_list(list, only(inputs, Op::kAllGather, "input tensor"), options), options.asyncOp,
                {::c10d::OpType::ALLGATHER, "customccl:all_gather"}, [&] { return Held{inputs, list}; });
}

PreparedCall CustomBackend::prepare_all_gather(const at::Tensor& output, const at::Tensor& input,
                                               const ::c10d::AllgatherOptions& options) const {
  TORCH_CHECK_VALUE(is_many(output, input, getSize()), "customccl: all_gather needs an output of ", getSize(),
                    " times the input's elements: output has ", output.numel(), " (sizes ", output.sizes(), "), input ",
                    input.numel(), " (sizes ", input.sizes(), ")");
  PreparedCall prepared(Op::kAllGather);
  prepared.add_input(input);
  prepared.split_output(output, size());
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return prepared;
}

CustomBackend::WorkPtr CustomBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const ::c10d::AllgatherOptions& options) {
  return launch(prepare_all_gather(output, input, options), options.asyncOp,
                {::c10d::OpType::_ALLGATHER_BASE, "customccl:_all_gather_base"}, [&] { return Held{input, output}; });
}

CustomBackend::WorkPtr CustomBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const ::c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "customccl: all_gather_into_tensor_coalesced got ", outputs.size(),
                    " outputs and ", inputs.size(), " inputs");
  std::vector<PreparedCall> calls;
  for (std::size_t i = 0; i < inputs.size(); ++i) calls.push_back(prepare_all_gather(outputs[i], inputs[i], options));
  return launch_all(std::move(calls), options.asyncOp,
                    {::c10d::OpType::COALESCED, "customccl:all_gather_into_tensor_coalesced"}, {inputs, outputs});
}

// outputs[i][j]: what input j of rank i becomes here.
CustomBackend::WorkPtr CustomBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                          const ::c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == size(),
                    "customccl: all_gather_coalesced needs one list of outputs per rank: got ", outputs.size(),
                    " in a group of ", size());
  Tensors gathered;
  std::vector<PreparedCall> calls;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors column;
    for (const Tensors& list : outputs) {
      TORCH_CHECK_VALUE(list.size() == inputs.size(), "customccl: all_gather_coalesced got ", list.size(),
                        " outputs for ", inputs.size(), " inputs");
      column.push_back(list[i]);
    }
    calls.push_back(prepare_all_gather_list(column, inputs[i], options));
    gathered.insert(gathered.end(), column.begin(), column.end());
  }
  return launch_all(std::move(calls), options.asyncOp,
                    {::c10d::OpType::ALLGATHER_COALESCED, "customccl:all_gather_coalesced"}, {inputs, gathered});
}

CustomBackend::WorkPtr CustomBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const ::c10d::GatherOptions& options) {
  PreparedCall prepared(Op::kGather);
  prepared.set_root(options.rootRank, getSize());
  prepared.add_input(only(inputs, Op::kGather, "input tensor"));
  const bool root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(outputs.size() == (root ? 1U : 0U),
                    "customccl: gather takes a list of outputs on the root only: rank ", getRank(),
                    " of the group gave ", outputs.size(), ", the root is ", options.rootRank);
  if (root) {
    TORCH_CHECK_VALUE(outputs[0].size() == size(), "customccl: gather needs one output tensor per rank: got ",
                      outputs[0].size(), " in a group of ", size());
    prepared.add_outputs(outputs[0]);
    const at::Tensor& own = outputs[0][static_cast<std::size_t>(getRank())];
    TORCH_CHECK_VALUE(own.numel() == inputs[0].numel(), "customccl: gather got an output of ", own.numel(),
                      " elements for the root's own input of ", inputs[0].numel());
  }
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::GATHER, "customccl:gather"},
                [&] { return Held{inputs, root ? at::TensorList(outputs[0]) : at::TensorList()}; });
}

// The output counts on the root only; elsewhere c10d gives an empty one.
CustomBackend::WorkPtr CustomBackend::gather_single(at::Tensor& output, at::Tensor& input,
                                                    const ::c10d::GatherOptions& options) {
  PreparedCall prepared(Op::kGather);
  prepared.set_root(options.rootRank, getSize());
  prepared.add_input(input);
  const bool root = options.rootRank == getRank();
  if (root) {
    TORCH_CHECK_VALUE(is_many(output, input, getSize()), "customccl: gather needs an output of ", getSize(),
                      " times the input's elements: output has ", output.numel(), " (sizes ", output.sizes(),
                      "), input ", input.numel(), " (sizes ", input.sizes(), ")");
    prepared.split_output(output, size());
  }
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::GATHER, "customccl:gather"},
                [&] { return Held{input, output}; });
}

CustomBackend::WorkPtr CustomBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const ::c10d::ScatterOptions& options) {
  PreparedCall prepared(Op::kScatter);
  prepared.set_root(options.rootRank, getSize());
  prepared.add_output(only(outputs, Op::kScatter, "output tensor"));
  const bool root = options.rootRank == getRank();
  TORCH_CHECK_VALUE(inputs.size() == (root ? 1U : 0U),
                    "customccl: scatter takes a list of inputs on the root only: rank ", getRank(),
                    " of the group gave ", inputs.size(), ", the root is ", options.rootRank);
  if (root) {
    TORCH_CHECK_VALUE(inputs[0].size() == size(), "customccl: scatter needs one input tensor per rank: got ",
                      inputs[0].size(), " in a group of ", size());
    for (const at::Tensor& input : inputs[0]) prepared.add_input(input);
    const at::Tensor& own = inputs[0][static_cast<std::size_t>(getRank())];
    TORCH_CHECK_VALUE(own.numel() == outputs[0].numel(), "customccl: scatter got an output of ", outputs[0].numel(),
                      " elements for the root's own input of ", own.numel());
  }
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::SCATTER, "customccl:scatter"},
                [&] { return Held{root ? at::TensorList(inputs[0]) : at::TensorList(), outputs}; });
}

CustomBackend::WorkPtr CustomBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<std::int64_t>& output_splits,
                                                    std::vector<std::int64_t>& input_splits,
                                                    const ::c10d::AllToAllOptions& options) {
  PreparedCall prepared(Op::kAllToAll);
  prepared.add_splits(input, input_splits, getSize(), false);
  prepared.add_splits(output, output_splits, getSize(), true);
  prepared.check_own_block(getRank());
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::ALLTOALL_BASE, "customccl:all_to_all"},
                [&] { return Held{input, output, input_splits, output_splits}; });
}

CustomBackend::WorkPtr CustomBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                               const ::c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == size() && inputs.size() == size(),
                    "customccl: all_to_all needs one input and one output tensor per rank: got ", inputs.size(),
                    " and ", outputs.size(), " in a group of ", size());
  PreparedCall prepared(Op::kAllToAll);
  for (const at::Tensor& input : inputs) prepared.add_input(input);
  prepared.add_outputs(outputs);
  prepared.check_own_block(getRank());
  prepared.copy_overlapped_inputs(getRank());
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::ALLTOALL, "customccl:all_to_all"},
                [&] { return Held{inputs, outputs}; });
}

CustomBackend::WorkPtr CustomBackend::barrier(const ::c10d::BarrierOptions& options) {
  PreparedCall prepared(Op::kBarrier);
  prepared.set_timeout(options.timeout);
  return launch(std::move(prepared), options.asyncOp, {::c10d::OpType::BARRIER, "customccl:barrier"},
                [] { return Held{}; });
}

void CustomBackend::monitoredBarrier(const ::c10d::BarrierOptions& options, bool wait_all_ranks) {
  if (group_->suspended() || group_->inherited()) throw_status(group_->refuse(Task(Call(), Nanos(0))));
  const bool stated = options.timeout != ::c10d::kUnsetTimeout;
  try {
    monitored_barrier(*group_, stated ? to_limit(options.timeout) : group_->limit_of(Call()), wait_all_ranks);
  } catch (...) {
    stay_if_python_ends();
    abort_hooks_->run();
    throw;
  }
  stay_if_python_ends();
}

}  // namespace customccl::torch_shim
