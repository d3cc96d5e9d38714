#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <utility>

#include "base/dtype.h"
#include "base/in_order.h"
#include "base/reduce_op.h"
#include "c10d/compat.h"

namespace customccl::torch_shim {

// torch's element types and ours. A type that is not here is refused by name.
inline constexpr std::array<std::pair<c10::ScalarType, DType>, 21> kScalarTypes{{
    {c10::ScalarType::Bool, DType::kBool},
    {c10::ScalarType::Byte, DType::kUInt8},
    {c10::ScalarType::Char, DType::kInt8},
    {c10::ScalarType::UInt16, DType::kUInt16},
    {c10::ScalarType::Short, DType::kInt16},
    {c10::ScalarType::UInt32, DType::kUInt32},
    {c10::ScalarType::Int, DType::kInt32},
    {c10::ScalarType::UInt64, DType::kUInt64},
    {c10::ScalarType::Long, DType::kInt64},
    {c10::ScalarType::Half, DType::kFloat16},
    {c10::ScalarType::BFloat16, DType::kBFloat16},
    {c10::ScalarType::Float, DType::kFloat32},
    {c10::ScalarType::Double, DType::kFloat64},
    {c10::ScalarType::ComplexFloat, DType::kComplex64},
    {c10::ScalarType::ComplexDouble, DType::kComplex128},
    {c10::ScalarType::Float8_e4m3fn, DType::kFloat8E4M3FN},
    {c10::ScalarType::Float8_e4m3fnuz, DType::kFloat8E4M3FNUZ},
    {c10::ScalarType::Float8_e5m2, DType::kFloat8E5M2},
    {c10::ScalarType::Float8_e5m2fnuz, DType::kFloat8E5M2FNUZ},
    {c10::ScalarType::Float8_e8m0fnu, DType::kFloat8E8M0FNU},
    {c10::ScalarType::Float4_e2m1fn_x2, DType::kFloat4E2M1FNX2},
}};
static_assert(kScalarTypes.size() == kDTypes.size());
static_assert(in_order(kScalarTypes, &std::pair<c10::ScalarType, DType>::second));

// By scalar type; -1 where we have none.
inline constexpr auto kDTypeOfScalar = [] {
  std::array<std::int8_t, 128> table{};
  table.fill(-1);
  for (const auto& [scalar, dtype] : kScalarTypes) {
    table[static_cast<std::size_t>(scalar)] = static_cast<std::int8_t>(dtype);
  }
  return table;
}();

[[noreturn, gnu::cold, gnu::noinline]] void refuse_scalar_type(c10::ScalarType scalar);
[[noreturn, gnu::cold, gnu::noinline]] void refuse_reduce_op(const ::c10d::ReduceOp& op);

inline DType dtype_of(c10::ScalarType scalar) {
  const auto index = static_cast<std::size_t>(scalar);
  const std::int8_t found = index < kDTypeOfScalar.size() ? kDTypeOfScalar[index] : std::int8_t{-1};
  if (C10_UNLIKELY(found < 0)) refuse_scalar_type(scalar);
  return static_cast<DType>(found);
}

inline ReduceOp reduce_op_of(const ::c10d::ReduceOp& op) {
  switch (op.op_) {
    case ::c10d::ReduceOp::SUM: return ReduceOp::kSum;
    case ::c10d::ReduceOp::AVG: return ReduceOp::kAvg;
    case ::c10d::ReduceOp::PRODUCT: return ReduceOp::kProduct;
    case ::c10d::ReduceOp::MIN: return ReduceOp::kMin;
    case ::c10d::ReduceOp::MAX: return ReduceOp::kMax;
    case ::c10d::ReduceOp::BAND: return ReduceOp::kBand;
    case ::c10d::ReduceOp::BOR: return ReduceOp::kBor;
    case ::c10d::ReduceOp::BXOR: return ReduceOp::kBxor;
    case ::c10d::ReduceOp::PREMUL_SUM: return ReduceOp::kPremulSum;
    case ::c10d::ReduceOp::UNUSED: break;
  }
  refuse_reduce_op(op);
}

// What nearly every tensor is: dense, on the CPU, as it is written. False for the undefined one, and for some that are plain all the same.
inline bool is_plain(const at::Tensor& tensor) {
  constexpr c10::DispatchKeySet kLazy{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative};
  const c10::DispatchKeySet keys = tensor.key_set();
  return C10_LIKELY(keys.has(c10::DispatchKey::CPU)) && C10_LIKELY(!keys.has_any(kLazy));
}

}  // namespace customccl::torch_shim
