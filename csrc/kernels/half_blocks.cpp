#include "kernels/half_blocks.h"

#if defined(__x86_64__)

namespace customccl::kernels {

[[gnu::target("avx2,f16c")]] void load_half_block(float* wide, const std::byte* memory, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kHalfBlock) _mm256_storeu_ps(wide + i, widened(memory + 2 * i));
}

[[gnu::target("avx2,f16c")]] void store_half_block(std::byte* memory, const float* wide, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kHalfBlock) narrow(memory + 2 * i, _mm256_loadu_ps(wide + i));
}

}  // namespace customccl::kernels

#endif
