#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/cache_line.h"
#include "base/dtype.h"
#include "base/reduce_op.h"
#include "kernels/elements.h"
#include "kernels/operations.h"
#include "kernels/reduce_table.h"
#include "kernels/runs.h"
#include "kernels/streaming.h"
#include "kernels/strings.h"

// The loops behind reduce() and scale(); make_table.h puts them into the table of one instruction set. Included by one file per set.
//
// The elements are cut into strips. A strip is read from every source into accumulators, in rank order, then written:
//
//   sources[0]  ....[strip].......      wide  = load
//   sources[1]  ....[strip].......      wide  = combine(wide, load)        once per further source
//   dst         ....[strip].......      store(finish(wide))
//
// So every byte is touched once, dst may be one of the sources, and nothing but arithmetic order decides the result.
// The constant length of a strip lets the compiler keep the accumulators in vector registers; that needs no intrinsics.
//
// SUM on one core of a Zen 4 server with AVX-512, 10^9 elements/s, all buffers in L1 / in L2 / in DRAM:
//
//               2 sources              4 sources             8 sources
//   float32     20.9 / 9.5 / 2.3        6.4 / 5.5 / 1.6       3.8 / 3.2 / 0.9    DRAM: 28 to 33 GB/s, all there is
//   bfloat16    11.4 / 10.5 / 5.9       6.4 / 6.2 / 3.0       4.1 / 4.1 / 1.7
//   float16     10.3 / 10.3 / 5.0       6.1 / 6.1 / 3.1       3.4 / 3.4 / 1.5

namespace customccl::kernels {

// Long strips take 256 bytes, so that memory is read in runs of a few lines (7 % faster from DRAM than half as long
// ones) and the latency of an addition is hidden. At least 32 elements: GCC unrolls loops of up to 16 iterations before
// it looks for vectors, and with an inner loop over sources then finds none; hence also the strips of middle length.
template <class Element>
inline constexpr std::size_t kLongStrip = std::max<std::size_t>(32, 256 / sizeof(typename Element::Wide));
template <class Element>
inline constexpr std::size_t kMiddleStrip = kLongStrip<Element> / 2;
template <class Element>
inline constexpr std::size_t kShortStrip = std::max<std::size_t>(2, 32 / sizeof(typename Element::Wide));
// Of elements loaded by blocks, fewer left over than this go one by one, more as a strip filled up with zeros.
inline constexpr std::size_t kWorthPadding = 4;

template <InstructionSet isa, class Element, class Operation, std::size_t strip>
[[gnu::always_inline]] inline void finish_strip(std::byte* dst, typename Element::Wide (&wide)[strip], std::size_t n) {
  for (std::size_t i = 0; i < strip; ++i) wide[i] = Operation::finish(wide[i], n);
  Element::template store<isa>(dst, wide);
}

template <InstructionSet isa, class Element, class Operation, std::size_t strip>
[[gnu::always_inline]] inline void combine_two(typename Element::Wide (&wide)[strip], const std::byte* first,
                                               const std::byte* second) {
  typename Element::Wide next[strip];
  Element::template load<isa>(wide, first);
  Element::template load<isa>(next, second);
  for (std::size_t i = 0; i < strip; ++i) wide[i] = Operation::combine(wide[i], next[i]);
}

// Two sources apart from more: without a loop over sources the accumulators never leave the registers.
template <InstructionSet isa, class Element, class Operation, std::size_t strip>
[[gnu::always_inline]] inline std::size_t reduce_two(std::byte* dst, const std::byte* first, const std::byte* second,
                                                     std::size_t begin, std::size_t count) {
  std::size_t i = begin;
  for (; i + strip <= count; i += strip) {
    const std::size_t offset = i * Element::kSize;
    typename Element::Wide wide[strip];
    combine_two<isa, Element, Operation>(wide, first + offset, second + offset);
    finish_strip<isa, Element, Operation>(dst + offset, wide, 2);
  }
  return i;
}

template <InstructionSet isa, class Element, class Operation, std::size_t strip>
[[gnu::always_inline]] inline std::size_t reduce_many(std::byte* dst, const std::byte* const* sources, std::size_t n,
                                                      std::size_t begin, std::size_t count) {
  std::size_t i = begin;
  for (; i + strip <= count; i += strip) {
    const std::size_t offset = i * Element::kSize;
    typename Element::Wide wide[strip];
    combine_two<isa, Element, Operation>(wide, sources[0] + offset, sources[1] + offset);
    for (std::size_t k = 2; k < n; ++k) {
      typename Element::Wide next[strip];
      Element::template load<isa>(next, sources[k] + offset);
      for (std::size_t j = 0; j < strip; ++j) wide[j] = Operation::combine(wide[j], next[j]);
    }
    finish_strip<isa, Element, Operation>(dst + offset, wide, n);
  }
  return i;
}

// The elements from `begin` on, fewer than a strip: the same work on copies that are as long as a strip.
template <InstructionSet isa, class Element, class Operation>
[[gnu::always_inline]] inline void reduce_padded(std::byte* dst, const std::byte* const* sources, std::size_t n,
                                                 std::size_t begin, std::size_t count) {
  constexpr std::size_t kStrip = kLongStrip<Element>;
  const std::size_t offset = begin * Element::kSize;
  const std::size_t bytes = (count - begin) * Element::kSize;
  std::byte padded[kStrip * Element::kSize] = {};
  typename Element::Wide wide[kStrip];
  std::memcpy(padded, sources[0] + offset, bytes);
  Element::template load<isa>(wide, padded);
  for (std::size_t k = 1; k < n; ++k) {
    typename Element::Wide next[kStrip];
    std::memcpy(padded, sources[k] + offset, bytes);
    Element::template load<isa>(next, padded);
    for (std::size_t j = 0; j < kStrip; ++j) wide[j] = Operation::combine(wide[j], next[j]);
  }
  finish_strip<isa, Element, Operation>(padded, wide, n);
  std::memcpy(dst + offset, padded, bytes);
}

// As many strips as fit from `begin` on; returns the first element left over.
template <InstructionSet isa, class Element, class Operation, std::size_t strip>
[[gnu::always_inline]] inline std::size_t reduce_strips(std::byte* dst, const std::byte* const* sources, std::size_t n,
                                                        std::size_t begin, std::size_t count) {
  if constexpr (std::is_same_v<Element, ElementOf<DType::kFloat16>::type> && has_half_blocks(isa) &&
                strip == kLongStrip<Element>) {
    return reduce_half_blocks<Operation>(dst, sources, n, begin, count);
  }
  if (n == 2) return reduce_two<isa, Element, Operation, strip>(dst, sources[0], sources[1], begin, count);
  return reduce_many<isa, Element, Operation, strip>(dst, sources, n, begin, count);
}

// The elements from `begin` on, fewer than a long strip.
template <InstructionSet isa, class Element, class Operation>
[[gnu::always_inline]] inline void reduce_rest(std::byte* dst, const std::byte* const* sources, std::size_t n,
                                               std::size_t begin, std::size_t count) {
  if constexpr (Element::kByBlocks) {
    if (count - begin >= kWorthPadding) return reduce_padded<isa, Element, Operation>(dst, sources, n, begin, count);
  } else {
    if (n > 2) begin = reduce_many<isa, Element, Operation, kMiddleStrip<Element>>(dst, sources, n, begin, count);
    begin = reduce_strips<isa, Element, Operation, kShortStrip<Element>>(dst, sources, n, begin, count);
  }
  reduce_strips<isa, Element, Operation, 1>(dst, sources, n, begin, count);
}

// So much of a result is at hand in the first-level cache, and is worth a string instruction.
inline constexpr std::size_t kTwinStep = 4096;

// Bytes [begin, end) of the result to the twin, too, where `begin` begins a line.
[[gnu::always_inline]] inline void copy_to_twin(const ReduceHints& hints, const std::byte* dst, std::size_t begin,
                                                std::size_t end) {
#if defined(__x86_64__)
  if (hints.store == Store::kStreaming) {
    const std::size_t lines = (end - begin) / kCacheLine;
    stream_lines(hints.twin + begin, dst + begin, lines);
    begin += lines * kCacheLine;
  }
#endif
  if (end - begin >= kTwinStep && strings_write_lines()) {
    return copy_by_string(hints.twin + begin, dst + begin, end - begin);
  }
  std::memcpy(hints.twin + begin, dst + begin, end - begin);
}

// The long strips of `count` elements, in the order that suits where they lie, and what of them is a twin's. Returns the first element
// left over; [begin, end) are the bytes of the last run, whose twin is still to be written.
template <InstructionSet isa, class Element, class Operation>
[[gnu::always_inline]] inline std::size_t reduce_runs(std::byte* dst, const std::byte* const* sources, std::size_t n,
                                                      std::size_t count, const ReduceHints& hints, std::size_t& begin,
                                                      std::size_t& end) {
  constexpr std::size_t kStep = std::max(kRunStep, kLongStrip<Element> * Element::kSize);
  const bool by_strings = hints.twin != nullptr && hints.store == Store::kPlain && strings_write_lines();
  Runs runs(count * Element::kSize, n == 2 ? hints.origin : Origin::kCache, by_strings ? kTwinStep : kStep,
            hints.twin != nullptr);
  std::size_t i = 0;
  while (runs.next(begin, end)) {
    i = reduce_strips<isa, Element, Operation, kLongStrip<Element>>(dst, sources, n, begin / Element::kSize,
                                                                    end / Element::kSize);
    if (hints.twin != nullptr && !runs.over()) copy_to_twin(hints, dst, begin, end);
  }
  return i;
}

template <InstructionSet isa, class Element, class Operation>
[[gnu::always_inline]] inline void reduce_loop(std::byte* dst, const std::byte* const* sources, std::size_t n,
                                               std::size_t count, const ReduceHints& given) {
  const ReduceHints hints = given;  // what is written could change what is behind a reference
  std::size_t i = 0, begin = 0, end = count * Element::kSize;
  if (count >= kLongStrip<Element>) {
    i = reduce_runs<isa, Element, Operation>(dst, sources, n, count, hints, begin, end);
  }
  reduce_rest<isa, Element, Operation>(dst, sources, n, i, count);
  if (hints.twin == nullptr) return;
  copy_to_twin(hints, dst, begin, end);
  if (hints.store == Store::kStreaming) streaming_fence();
}

// Where a call begins: a few elements of two sources, such as a flag's line carries, do without what many need.
template <class Compiled, class Element, class Operation>
void reduce_any(std::byte* dst, const std::byte* const* sources, std::size_t n, std::size_t count,
                const ReduceHints& hints) {
  if constexpr (!Element::kByBlocks) {
    if (n == 2 && count < kShortStrip<Element> && hints.twin == nullptr) [[likely]] {
      for (std::size_t i = 0; i < count; ++i) {
        reduce_two<InstructionSet::kBaseline, Element, Operation, 1>(dst, sources[0], sources[1], i, i + 1);
        asm volatile("" : "+r"(i));  // not to be made code for many
      }
      return;
    }
  }
  Compiled::template reduce<Element, Operation>(dst, sources, n, count, hints);
}

template <class Wide>
[[gnu::always_inline]] inline Wide factor_as(std::complex<double> factor) {
  if constexpr (std::is_floating_point_v<Wide>) {
    return static_cast<Wide>(factor.real());
  } else {
    using Real = decltype(Wide::real);
    return {static_cast<Real>(factor.real()), static_cast<Real>(factor.imag())};
  }
}

template <InstructionSet isa, class Element, std::size_t strip>
[[gnu::always_inline]] inline std::size_t scale_strips(std::byte* dst, const std::byte* src, std::size_t begin,
                                                       std::size_t count, typename Element::Wide factor) {
  std::size_t i = begin;
  for (; i + strip <= count; i += strip) {
    typename Element::Wide wide[strip];
    Element::template load<isa>(wide, src + i * Element::kSize);
    for (std::size_t j = 0; j < strip; ++j) wide[j] = Product::combine(wide[j], factor);
    Element::template store<isa>(dst + i * Element::kSize, wide);
  }
  return i;
}

template <InstructionSet isa, class Element>
[[gnu::always_inline]] inline void scale_loop(std::byte* dst, const std::byte* src, std::size_t count,
                                              std::complex<double> factor) {
  const auto wide_factor = factor_as<typename Element::Wide>(factor);
  const std::size_t i = scale_strips<isa, Element, kLongStrip<Element>>(dst, src, 0, count, wide_factor);
  scale_strips<isa, Element, 1>(dst, src, i, count, wide_factor);
}

template <ReduceOp> struct OperationOf;
template <> struct OperationOf<ReduceOp::kSum> { using type = Sum; };
template <> struct OperationOf<ReduceOp::kProduct> { using type = Product; };
template <> struct OperationOf<ReduceOp::kMin> { using type = Min; };
template <> struct OperationOf<ReduceOp::kMax> { using type = Max; };
template <> struct OperationOf<ReduceOp::kAvg> { using type = Avg; };
template <> struct OperationOf<ReduceOp::kBand> { using type = Band; };
template <> struct OperationOf<ReduceOp::kBor> { using type = Bor; };
template <> struct OperationOf<ReduceOp::kBxor> { using type = Bxor; };

}  // namespace customccl::kernels
