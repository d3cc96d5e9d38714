#include <ATen/core/Tensor.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "c10d/launch.h"

// all_reduce of sparse (COO) tensors: every rank gathers everybody's indices and values and adds them up in rank order.

namespace customccl::torch_shim {

namespace {

using Tensors = std::vector<at::Tensor>;

void check_sparse(const at::Tensor& tensor, const ::c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(options.reduceOp == ::c10d::ReduceOp::SUM,
                    "customccl: all_reduce of sparse tensors knows SUM only");
  TORCH_CHECK_VALUE(tensor.layout() == c10::kSparse,
                    "customccl: all_reduce of sparse tensors takes the COO layout, not ", tensor.layout());
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "customccl: all_reduce got a sparse tensor on ", tensor.device(),
                    "; this backend serves CPU tensors");
}

}  // namespace

CustomBackend::WorkPtr CustomBackend::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  at::Tensor& tensor = only(tensors, Op::kAllReduce, "tensor");
  check_sparse(tensor, options);
  const at::Tensor input = tensor.coalesce();
  const Clock::time_point begin = Clock::now();
  const auto gather = [&](const at::Tensor& own, const std::vector<std::int64_t>& counts, bool columns) {
    // Blocks of different lengths, one per rank: counts[i] columns of indices or rows of values.
    Tensors blocks;
    for (const std::int64_t count : counts) {
      std::vector<std::int64_t> sizes = own.sizes().vec();
      sizes[columns ? 1 : 0] = count;
      blocks.push_back(at::empty(sizes, own.options()));
    }
    ::c10d::AllgatherOptions gather_options;
    gather_options.timeout = options.timeout;
    PreparedCall prepared = prepare_all_gather_list(blocks, own, gather_options);
    run(prepared);
    return blocks;
  };
  const std::vector<std::int64_t> ones(size(), 1);
  at::Tensor own_count = at::empty({1}, at::kLong);
  own_count.fill_(input._nnz());
  std::vector<std::int64_t> counts;
  for (const at::Tensor& count : gather(own_count, ones, false)) counts.push_back(count.item<std::int64_t>());
  const Tensors indices = gather(input._indices().contiguous(), counts, true);
  const Tensors values = gather(input._values().contiguous(), counts, false);
  at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices[0], values[0], input.sizes(), input.options()).coalesce();
  for (std::size_t i = 1; i < indices.size(); ++i) {
    sum = sum.add(at::_sparse_coo_tensor_unsafe(indices[i], values[i], input.sizes(), input.options()));
  }
  tensor.copy_(sum.coalesce());
  return report_success(::c10d::OpType::_ALLREDUCE_SPARSE, begin);
}

}  // namespace customccl::torch_shim
