#include "kernels/half_blocks.h"

#include <cstring>

#if defined(__x86_64__)

namespace customccl::kernels {

[[gnu::target("avx2,f16c")]] void load_half_block(float* wide, const std::byte* memory, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kFloats) {
    const Floats floats = widened(memory + 2 * i);
    std::memcpy(wide + i, &floats, sizeof(floats));
  }
}

[[gnu::target("avx2,f16c")]] void store_half_block(std::byte* memory, const float* wide, std::size_t n) {
  for (std::size_t i = 0; i < n; i += kFloats) {
    Floats floats;
    std::memcpy(&floats, wide + i, sizeof(floats));
    narrow(memory + 2 * i, floats);
  }
}

}  // namespace customccl::kernels

#endif
