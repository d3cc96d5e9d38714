#include "c10d/comms_record.h"

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

namespace customccl::torch_shim {

namespace {

// Readers of traces know the names that torch's NCCL backend gives.
std::string name_of(const Comms& comms) {
  switch (comms.type) {
    case ::c10d::OpType::ALLREDUCE:
    case ::c10d::OpType::_ALLREDUCE_SPARSE: return "allreduce";
    case ::c10d::OpType::ALLREDUCE_COALESCED: return "allreduce_coalesced";
    case ::c10d::OpType::BROADCAST: return "broadcast";
    case ::c10d::OpType::REDUCE: return "reduce";
    case ::c10d::OpType::ALLGATHER: return "all_gather";
    case ::c10d::OpType::ALLGATHER_COALESCED: return "all_gather_coalesced";
    case ::c10d::OpType::_ALLGATHER_BASE: return "_allgather_base";
    case ::c10d::OpType::REDUCE_SCATTER: return "reduce_scatter";
    case ::c10d::OpType::_REDUCE_SCATTER_BASE: return "_reduce_scatter_base";
    case ::c10d::OpType::ALLTOALL_BASE:
      return comms.input_splits.empty() && comms.output_splits.empty() ? "all_to_all" : "all_to_allv";
    case ::c10d::OpType::ALLTOALL: return "all_to_all";
    case ::c10d::OpType::GATHER: return "gather";
    case ::c10d::OpType::SCATTER: return "scatter";
    case ::c10d::OpType::BARRIER: return "barrier";
    case ::c10d::OpType::SEND: return "send";
    case ::c10d::OpType::RECV:
    case ::c10d::OpType::RECVANYSOURCE: return "recv";
    default: return "coalesced";
  }
}

std::int64_t elements(at::TensorList tensors) {
  std::int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.numel();
  return sum;
}

// What goes to, or comes from, each rank: rows where the caller gave them; elements where each rank has a tensor of its own.
std::vector<std::int64_t> splits_of(const Comms& comms, std::span<const std::int64_t> given, at::TensorList tensors) {
  std::vector<std::int64_t> splits(given.begin(), given.end());
  if (comms.type == ::c10d::OpType::ALLTOALL) {
    for (const at::Tensor& tensor : tensors) splits.push_back(tensor.numel());
  }
  return splits;
}

at::ScalarType scalar_type_of(const Comms& comms) {
  if (!comms.inputs.empty()) return comms.inputs[0].scalar_type();
  return comms.outputs.empty() ? at::kByte : comms.outputs[0].scalar_type();
}

// The distance of the members' global ranks; -1 if it is not one.
int stride_of(const std::vector<int>& ranks) {
  if (ranks.size() < 2) return 0;
  const int stride = ranks[1] - ranks[0];
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != stride) return -1;
  }
  return stride;
}

}  // namespace

void with_comms_record(const Comms& comms, const std::function<void()>& body) {
  const std::vector<std::int64_t> input_splits = splits_of(comms, comms.input_splits, comms.inputs);
  const std::vector<std::int64_t> output_splits = splits_of(comms, comms.output_splits, comms.outputs);
  CUSTOMCCL_RECORD_PARAM_COMMS((std::make_tuple(comms.sequence, comms.p2p)),
                               std::make_tuple(comms.group_name, comms.group_description), comms.inputs, comms.outputs,
                               comms.group.rank, name_of(comms), elements(comms.inputs), elements(comms.outputs),
                               scalar_type_of(comms), input_splits, output_splits, comms.group.global_ranks.front(),
                               stride_of(comms.group.global_ranks), comms.group.size, comms.async);
  body();
}

}  // namespace customccl::torch_shim
