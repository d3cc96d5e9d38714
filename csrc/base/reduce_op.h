#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

// The reduce operations, listed once, and which element types each is defined for.

namespace customccl {

enum class ReduceOp : std::uint8_t { kSum, kProduct, kMin, kMax, kAvg, kBand, kBor, kBxor, kPremulSum };

inline constexpr std::array<std::string_view, 9> kReduceOpNames{"SUM",  "PRODUCT", "MIN",  "MAX",       "AVG",
                                                                "BAND", "BOR",     "BXOR", "PREMUL_SUM"};

constexpr std::string_view name(ReduceOp op) { return kReduceOpNames[static_cast<std::size_t>(op)]; }

// Whether `op` has a meaning for `dtype`:
//   bool        SUM, MAX, BOR are "or"; PRODUCT, MIN, BAND are "and"; BXOR is "xor"; no AVG.
//   integers    everything but PREMUL_SUM; SUM and PRODUCT wrap; AVG divides the wrapped sum, truncating toward zero.
//   floats      everything but the bit operations; 16-bit and 8-bit floats accumulate in float32 and round once.
//   complex     SUM, PRODUCT, AVG, PREMUL_SUM.
constexpr bool is_defined(ReduceOp op, DType dtype) {
  const bool bits = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  const bool order = op == ReduceOp::kMin || op == ReduceOp::kMax;
  switch (info(dtype).kind) {
    case DTypeKind::kBoolean: return op != ReduceOp::kAvg && op != ReduceOp::kPremulSum;
    case DTypeKind::kInteger: return op != ReduceOp::kPremulSum;
    case DTypeKind::kFloating: return !bits;
    case DTypeKind::kComplex: return !bits && !order;
  }
  return false;
}

}  // namespace customccl
