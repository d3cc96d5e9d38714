#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "kernels/elements.h"
#include "kernels/reduce_loops.h"
#include "kernels/reduce_table.h"

// The table of one instruction set: which loop of reduce_loops.h carries out each (dtype, op). Compiled::reduce and Compiled::scale are
// those loops with that set's instructions.

namespace customccl::kernels {

template <class Compiled, Equivalent what>
constexpr ReduceWay reduce_way() {
  return {&reduce_any<Compiled, typename ElementOf<what.dtype>::type, typename OperationOf<what.op>::type>, what.parts};
}

template <class Compiled, DType dtype, ReduceOp op>
constexpr ReduceWay reduce_entry() {
  if constexpr (is_defined(op, dtype)) {
    return reduce_way<Compiled, equivalent(dtype, op)>();
  } else {
    return {};
  }
}

template <class Compiled, DType dtype>
constexpr ReduceWay one_source_entry() {
  if constexpr (info(dtype).kind == DTypeKind::kOpaque) {
    return {};
  } else {
    return reduce_way<Compiled, of_one_source(dtype)>();
  }
}

template <class Compiled, DType dtype>
constexpr ScaleLoop scale_entry() {
  if constexpr (info(dtype).kind == DTypeKind::kFloating || info(dtype).kind == DTypeKind::kComplex) {
    return &Compiled::template scale<typename ElementOf<dtype>::type>;
  } else {
    return nullptr;
  }
}

template <class Compiled, DType dtype, std::size_t... ops>
constexpr auto reduce_row(std::index_sequence<ops...>) {
  return std::array{reduce_entry<Compiled, dtype, static_cast<ReduceOp>(ops)>()...};
}

template <class Compiled, std::size_t... dtypes>
constexpr ReduceTable make_table(std::index_sequence<dtypes...>) {
  constexpr std::make_index_sequence<kReduceOpNames.size()> kOps;
  return {{reduce_row<Compiled, kDTypes[dtypes].dtype>(kOps)...},
          {one_source_entry<Compiled, kDTypes[dtypes].dtype>()...},
          {scale_entry<Compiled, kDTypes[dtypes].dtype>()...}};
}

template <class Compiled>
constexpr ReduceTable make_table() {
  return make_table<Compiled>(std::make_index_sequence<kDTypes.size()>());
}

}  // namespace customccl::kernels
