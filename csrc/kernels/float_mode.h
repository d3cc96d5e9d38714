#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// How the calling thread computes with floats: a program may have it flush denormals to zero (torch.set_flush_denormal) or round
// otherwise, on some ranks only.

namespace customccl::kernels {

#if defined(__x86_64__)
using FloatMode = std::uint32_t;                // MXCSR
inline constexpr FloatMode kFlushing = 0x8040;  // results, operands
inline constexpr FloatMode kRounding = 0x6000;  // 0: to nearest even
inline FloatMode float_mode() { return _mm_getcsr(); }
inline void set_float_mode(FloatMode mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
using FloatMode = std::uint64_t;                                  // FPCR
inline constexpr FloatMode kFlushing = 1u << 24 | 1u << 19 | 1u;  // of all sizes, of 16 bits, of operands alone
inline constexpr FloatMode kRounding = 3u << 22;                  // 0: to nearest even
inline FloatMode float_mode() {
  FloatMode mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_float_mode(FloatMode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
using FloatMode = std::uint32_t;  // unknown: left as it is
inline constexpr FloatMode kFlushing = 0;
inline constexpr FloatMode kRounding = 0;
inline FloatMode float_mode() { return 0; }
inline void set_float_mode(FloatMode) {}
#endif

// While one lives, its thread keeps denormals and rounds to nearest even, as threads do from their start.
class UsualFloats {
 public:
  static bool set_already() { return (float_mode() & (kFlushing | kRounding)) == 0; }

  UsualFloats() : theirs_(float_mode()) { set_float_mode(theirs_ & ~(kFlushing | kRounding)); }
  ~UsualFloats() { set_float_mode(theirs_); }
  UsualFloats(const UsualFloats&) = delete;
  UsualFloats& operator=(const UsualFloats&) = delete;

 private:
  FloatMode theirs_;
};

}  // namespace customccl::kernels
