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
//   opaque      none.
constexpr bool is_defined(ReduceOp op, DTypeKind kind) {
  const bool bits = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  const bool order = op == ReduceOp::kMin || op == ReduceOp::kMax;
  switch (kind) {
    case DTypeKind::kBoolean: return op != ReduceOp::kAvg && op != ReduceOp::kPremulSum;
    case DTypeKind::kInteger: return op != ReduceOp::kPremulSum;
    case DTypeKind::kFloating: return !bits;
    case DTypeKind::kComplex: return !bits && !order;
    case DTypeKind::kOpaque: return false;
  }
  return false;
}

// The same, a bit per reduce operation, by type: a look instead of steps.
[[gnu::visibility("hidden")]] inline constexpr auto kDefined = [] {
  std::array<std::uint16_t, kDTypes.size()> defined{};
  for (const DTypeInfo& type : kDTypes) {
    for (unsigned op = 0; op < kReduceOpNames.size(); ++op) {
      const bool is = is_defined(static_cast<ReduceOp>(op), type.kind);
      defined[static_cast<std::size_t>(type.dtype)] |= static_cast<std::uint16_t>(static_cast<unsigned>(is) << op);
    }
  }
  return defined;
}();
constexpr bool is_defined(ReduceOp op, DType dtype) {
  return (kDefined[static_cast<std::size_t>(dtype)] >> static_cast<unsigned>(op) & 1) != 0;
}

}  // namespace customccl
