#include <ATen/core/Tensor.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "c10d/errors.h"
#include "c10d/launch.h"
#include "kernels/float_mode.h"

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

// What a rank tells of its tensor before anything else: everybody then knows who gives how much, and whether all mean the same sum.
constexpr std::int64_t kMostDims = 64;  // as many as torch's own functions take
constexpr std::int64_t kFacts = 3 + kMostDims;

at::Tensor facts_of(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.dim() <= kMostDims, "customccl: all_reduce of sparse tensors takes up to ", kMostDims,
                    " dimensions, not ", tensor.dim());
  at::Tensor facts = at::zeros({kFacts}, at::kLong);
  auto* fact = facts.mutable_data_ptr<std::int64_t>();
  *fact++ = tensor._nnz();
  *fact++ = tensor.sparse_dim();
  *fact++ = tensor.dense_dim();
  std::ranges::copy(tensor.sizes(), fact);
  return facts;
}

std::string describe(const at::Tensor& facts) {
  const auto* fact = facts.const_data_ptr<std::int64_t>();
  return c10::str("sizes ", at::IntArrayRef(fact + 3, static_cast<std::size_t>(fact[1] + fact[2])), ", ", fact[1],
                  " of them sparse");
}

// How many entries each rank gives. The same error on all ranks if their tensors differ in anything else.
std::vector<std::int64_t> counts_of(const Tensors& facts, const std::vector<int>& global_ranks) {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    counts.push_back(facts[i].const_data_ptr<std::int64_t>()[0]);
    if (at::equal(facts[i].slice(0, 1), facts[0].slice(0, 1))) continue;
    throw_status({Code::kMismatch,
                  c10::str("customccl: all_reduce got sparse tensors of different shapes: rank ", global_ranks[0],
                           " gave ", describe(facts[0]), "; rank ", global_ranks[i], " gave ", describe(facts[i]))});
  }
  return counts;
}

}  // namespace

CustomBackend::WorkPtr CustomBackend::allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  at::Tensor& tensor = only(tensors, Op::kAllReduce, "tensor");
  check_sparse(tensor, options);
  Call call;  // for those who watch, and what they do to its timeout
  call.op = Op::kAllReduce;
  if (options.timeout.count() > 0) call.timeout = to_limit(options.timeout);
  const auto body = [&] { tensor.copy_(sum_sparse(tensor.coalesce(), call.timeout)); };
  return run_observed(call, body, {::c10d::OpType::_ALLREDUCE_SPARSE, "customccl:sparse_all_reduce"},
                      {tensors, tensors}, at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE), tensors);
}

at::Tensor CustomBackend::sum_sparse(const at::Tensor& input, Nanos limit) {
  const auto gather = [&](const at::Tensor& own, const std::vector<std::int64_t>& counts, bool columns) {
    // Blocks of different lengths, one per rank: counts[i] columns of indices or rows of values.
    Tensors blocks;
    for (const std::int64_t count : counts) {
      std::vector<std::int64_t> sizes = own.sizes().vec();
      sizes[columns ? 1 : 0] = count;
      blocks.push_back(at::empty(sizes, own.options()));
    }
    PreparedCall prepared = prepare_all_gather_list(blocks, own, {});
    prepared.call().timeout = limit;
    run(prepared);
    return blocks;
  };
  const std::vector<std::int64_t> counts =
      counts_of(gather(facts_of(input), std::vector<std::int64_t>(size(), kFacts), false), group_->spec().global_ranks);
  const Tensors indices = gather(input._indices().contiguous(), counts, true);
  const Tensors values = gather(input._values().contiguous(), counts, false);
  const kernels::UsualFloats usual;  // each rank adds for itself
  at::Tensor sum = at::_sparse_coo_tensor_unsafe(indices[0], values[0], input.sizes(), input.options()).coalesce();
  for (std::size_t i = 1; i < indices.size(); ++i) {
    sum = sum.add(at::_sparse_coo_tensor_unsafe(indices[i], values[i], input.sizes(), input.options()));
  }
  return sum.coalesce();
}

}  // namespace customccl::torch_shim
