#pragma once

#include <cstddef>
#include <cstring>

namespace customccl::kernels {

// From so many bytes on string instructions are worth their start.
inline constexpr std::size_t kWorthString = 2048;

// Plain stores by a string instruction, whatever the C library prefers; where strings_write_lines().
[[gnu::always_inline]] inline void copy_by_string(std::byte* dst, const std::byte* src, std::size_t bytes) {
#if defined(__x86_64__)
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
  std::memcpy(dst, src, bytes);
#endif
}

}  // namespace customccl::kernels
