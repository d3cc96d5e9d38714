#pragma once

#include <complex>
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "kernels/copy.h"

namespace customccl {

struct ReduceHints {
  Origin origin = Origin::kCache;  // where most of the sources lie
  std::byte* twin = nullptr;       // begins a cache line: the result goes there, too, while it is at hand,
  Store store = Store::kPlain;     // by stores of this kind; fenced like a copy()
};

inline constexpr ReduceHints kNoHints{};

// dst[i] = sources[0][i] op sources[1][i] op ... op sources[n-1][i], for count elements, strictly in that order.
//
// One pass over all sources. 16-bit and 8-bit floats accumulate in float32 and round once (nearest even). AVG divides
// the finished sum by n. PREMUL_SUM is SUM here (the factor is applied before, by scale()). MIN and MAX hand NaN on, as
// torch.minimum does. The result of an element depends only on its sources, never on count, alignment or position: the
// same bits on every rank, for every chunk size and on every instruction set. Therefore a NaN comes out as the one
// positive quiet NaN, whichever came in (also from one source), and bool as 0 or 1; and a thread that flushes denormals
// or rounds otherwise does neither in here (float_mode.h). dst may be equal to any one of the sources; otherwise it
// overlaps none. n >= 1; is_defined(op, dtype) holds.
[[gnu::hot]] void reduce(std::byte* dst, std::span<const std::byte* const> sources, std::size_t count, DType dtype,
                         ReduceOp op, const ReduceHints& hints = kNoHints);

// dst[i] = src[i] * factor. dst may be src. Floating and complex types; real types use factor.real(). The factor is
// rounded to what the type accumulates in; a complex element times a real factor is scaled part by part.
void scale(std::byte* dst, const std::byte* src, std::size_t count, DType dtype, std::complex<double> factor);

}  // namespace customccl
