#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"

// What the kernels should compute, written a second time in the plainest way: one element at a time, in double rounded
// to the accumulator after each step, and small floats by searching the list of all their values.

namespace customccl::test {

// An element as a value: integers and booleans in `bits`, floats and complex numbers in `real` and `imag`.
struct Value {
  std::uint64_t bits = 0;
  double real = 0;
  double imag = 0;
};

Value decode(DType dtype, const std::byte* memory);
void encode(DType dtype, const Value& value, std::byte* memory);

// The value rounded to the precision in which `dtype` accumulates.
double accumulated(DType dtype, double value);

// The expected element of reduce(): sources in order, one element each.
void expected_reduce(DType dtype, ReduceOp op, const std::vector<const std::byte*>& sources, std::byte* result);
void expected_scale(DType dtype, const std::byte* source, std::complex<double> factor, std::byte* result);

// A value for (source, index): differs per position and per source, small enough for sums and products to stay finite.
void fill(DType dtype, std::size_t source, std::size_t index, std::byte* memory);

}  // namespace customccl::test
