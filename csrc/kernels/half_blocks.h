#pragma once

#include <cstddef>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/small_float.h"
#include "platform/cpu.h"

// float16 <-> float32 for blocks of elements, by the processor's conversion instructions (F16C).
//
// Why intrinsics here: no plain loop becomes those instructions under GCC 11 and 12, and the integer arithmetic of
// small_float.h is 6 times (AVX-512) to 11 times (AVX2) slower: 1.7 and 0.9 against 10 x 10^9 elements/s, SUM of 2.
// Why functions, not inline: an inline function may not use instructions that the template around it does not name.
// Why one for whole strips: what is handed from function to function goes through memory (SUM of 2: 5.6).
// Rounding is to nearest even whatever the thread's mode; every NaN becomes the canonical one.

namespace customccl::kernels {

inline constexpr std::size_t kHalfBlock = 8;  // n below is a multiple of it

#if defined(__x86_64__)
constexpr bool has_half_blocks(InstructionSet set) { return set != InstructionSet::kBaseline; }
void load_half_block(float* wide, const std::byte* memory, std::size_t n);
void store_half_block(std::byte* memory, const float* wide, std::size_t n);

constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

#if defined(__clang__)
// Clang lets no function without AVX take or return vectors of eight, not even where it is inlined: operations.h gets four.
using Floats = __m128;
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline Floats widened(const std::byte* memory) {
  return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(memory)));
}

[[gnu::target("avx2,f16c"), gnu::always_inline]] inline void narrow(std::byte* memory, Floats value) {
  const Floats nan = _mm_castsi128_ps(_mm_set1_epi32(kFloatNan));
  const Floats kept = _mm_blendv_ps(value, nan, _mm_cmp_ps(value, value, _CMP_UNORD_Q));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(memory), _mm_cvtps_ph(kept, kNearestEven));
}
#else
using Floats = __m256;
[[gnu::target("avx2,f16c"), gnu::always_inline]] inline Floats widened(const std::byte* memory) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(memory)));
}

[[gnu::target("avx2,f16c"), gnu::always_inline]] inline void narrow(std::byte* memory, Floats value) {
  const Floats nan = _mm256_castsi256_ps(_mm256_set1_epi32(kFloatNan));
  const Floats kept = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(memory), _mm256_cvtps_ph(kept, kNearestEven));
}
#endif

inline constexpr std::size_t kFloats = sizeof(Floats) / sizeof(float);

// Elements [begin, count) of `n` sources, 32 at a time; returns the first left over.
template <class Operation>
[[gnu::target("avx2,f16c")]]
std::size_t reduce_half_blocks(std::byte* dst, const std::byte* const* sources, std::size_t n, std::size_t begin,
                               std::size_t count) {
  constexpr std::size_t kAtATime = 32, kBlocks = kAtATime / kFloats, kBlockBytes = 2 * kFloats;
  const std::byte* const first = sources[0];
  const std::byte* const second = sources[1];
  std::size_t i = begin;
  for (; i + kAtATime <= count; i += kAtATime) {
    Floats wide[kBlocks];
    for (std::size_t k = 0; k < kBlocks; ++k) {
      const std::size_t offset = 2 * i + k * kBlockBytes;
      wide[k] = Operation::combine(widened(first + offset), widened(second + offset));
    }
    for (std::size_t source = 2; source < n; ++source) {
      for (std::size_t k = 0; k < kBlocks; ++k) {
        wide[k] = Operation::combine(wide[k], widened(sources[source] + 2 * i + k * kBlockBytes));
      }
    }
    for (std::size_t k = 0; k < kBlocks; ++k) narrow(dst + 2 * i + k * kBlockBytes, Operation::finish(wide[k], n));
  }
  return i;
}
#else
constexpr bool has_half_blocks(InstructionSet) { return false; }
inline void load_half_block(float*, const std::byte*, std::size_t) {}
inline void store_half_block(std::byte*, const float*, std::size_t) {}
template <class Operation>
std::size_t reduce_half_blocks(std::byte*, const std::byte* const*, std::size_t, std::size_t begin, std::size_t) {
  return begin;
}
#endif

}  // namespace customccl::kernels
