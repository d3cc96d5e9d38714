#include "kernels/half_blocks.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/small_float.h"

namespace customccl::kernels {

[[gnu::target("avx2,f16c")]] void load_half_block(float* wide, const std::byte* memory, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kHalfBlock) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(memory + 2 * i));
    _mm256_storeu_ps(wide + i, _mm256_cvtph_ps(codes));
  }
}

[[gnu::target("avx2,f16c")]] void store_half_block(std::byte* memory, const float* wide, std::size_t n) {
  constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(kFloatNan));
  for (std::size_t i = 0; i < n; i += kHalfBlock) {
    const __m256 value = _mm256_loadu_ps(wide + i);
    const __m256 kept = _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(memory + 2 * i), _mm256_cvtps_ph(kept, kNearestEven));
  }
}

}  // namespace customccl::kernels

#endif
