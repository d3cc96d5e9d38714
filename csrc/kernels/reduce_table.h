#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "kernels/reduce.h"
#include "platform/cpu.h"

// The compiled loops, a table per instruction set. reduce() and scale() use that of instruction_set(), tests use all.

namespace customccl::kernels {

// At least two sources.
using ReduceLoop = void (*)(std::byte* dst, const std::byte* const* sources, std::size_t n, std::size_t count,
                            const ReduceHints& hints);
using ScaleLoop = void (*)(std::byte* dst, const std::byte* src, std::size_t count, std::complex<double> factor);

// How (dtype, op) is carried out: by this loop, which takes each element for so many. None where the operation is undefined.
struct ReduceWay {
  ReduceLoop loop = nullptr;
  std::size_t parts = 0;
};

struct ReduceTable {
  std::array<std::array<ReduceWay, kReduceOpNames.size()>, kDTypes.size()> reduce;
  std::array<ReduceWay, kDTypes.size()> of_one_source;  // given twice
  std::array<ScaleLoop, kDTypes.size()> scale;
};

// The table of `set`, or the widest one below it that this build has. The processor must have the instructions.
const ReduceTable& reduce_table(InstructionSet set);

// reduce() and scale() of kernels/reduce.h by a given table.
void reduce(const ReduceTable& table, std::byte* dst, std::span<const std::byte* const> sources, std::size_t count,
            DType dtype, ReduceOp op, const ReduceHints& hints);
void scale(const ReduceTable& table, std::byte* dst, const std::byte* src, std::size_t count, DType dtype,
           std::complex<double> factor);

// Compiling the vector tables takes a minute. With CUSTOMCCL_BASELINE_KERNELS there is the baseline alone.
#if defined(__x86_64__) && !defined(CUSTOMCCL_BASELINE_KERNELS)
#define CUSTOMCCL_VECTOR_KERNELS
#endif

extern const ReduceTable kBaselineTable;
#if defined(CUSTOMCCL_VECTOR_KERNELS)
extern const ReduceTable kAvx2Table;
extern const ReduceTable kAvx512Table;
#endif

// What is done instead of (dtype, op) with the same bits as result, so that fewer loops need to be compiled: complex
// sums are sums of twice as many reals, bit operations go by bytes, signed integers wrap as unsigned ones do.
struct Equivalent {
  DType dtype;
  ReduceOp op;
  std::size_t parts;  // elements of the new dtype for each old one
};

constexpr DType component(DType dtype) {
  if (dtype == DType::kComplex64) return DType::kFloat32;
  return dtype == DType::kComplex128 ? DType::kFloat64 : dtype;
}

constexpr DType unsigned_twin(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return DType::kUInt8;
    case DType::kInt16: return DType::kUInt16;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    default: return dtype;
  }
}

constexpr Equivalent equivalent(DType dtype, ReduceOp op) {
  if (op == ReduceOp::kPremulSum) op = ReduceOp::kSum;
  const bool sum = op == ReduceOp::kSum;
  const bool product = op == ReduceOp::kProduct;
  switch (info(dtype).kind) {
    case DTypeKind::kBoolean:
      if (sum || op == ReduceOp::kMax) op = ReduceOp::kBor;
      if (product || op == ReduceOp::kMin) op = ReduceOp::kBand;
      return {dtype, op, 1};
    case DTypeKind::kInteger:
      if (op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor) {
        return {DType::kUInt8, op, size_of(dtype)};
      }
      return {sum || product ? unsigned_twin(dtype) : dtype, op, 1};
    case DTypeKind::kFloating:
    case DTypeKind::kOpaque: return {dtype, op, 1};
    case DTypeKind::kComplex:
      if (product) return {dtype, op, 1};
      return {component(dtype), op, 2};
  }
  return {dtype, op, 1};
}

// One source: its own minimum, or for bool "a or a", which is the value itself in canonical form (NaN, bool bytes).
constexpr Equivalent of_one_source(DType dtype) {
  if (dtype == DType::kBool) return {dtype, ReduceOp::kBor, 1};
  return {component(dtype), ReduceOp::kMin, component(dtype) == dtype ? std::size_t{1} : std::size_t{2}};
}

}  // namespace customccl::kernels
