#pragma once

#include <cstddef>

#include "platform/cpu.h"

// float16 <-> float32 for blocks of elements, by the processor's conversion instructions (F16C).
//
// Why intrinsics here: no plain loop becomes those instructions under GCC 11 and 12, and the integer arithmetic of
// small_float.h is 3 times (AVX-512) to 6 times (AVX2) slower: 1.7 and 0.9 against 5.6 x 10^9 elements/s, SUM of 2.
// Why functions, not inline: an inline function may not use instructions that the template around it does not name.
// Rounding is to nearest even whatever the thread's mode; every NaN becomes the canonical one.

namespace customccl::kernels {

inline constexpr std::size_t kHalfBlock = 8;  // n below is a multiple of it

#if defined(__x86_64__)
constexpr bool has_half_blocks(InstructionSet set) { return set != InstructionSet::kBaseline; }
void load_half_block(float* wide, const std::byte* memory, std::size_t n);
void store_half_block(std::byte* memory, const float* wide, std::size_t n);
#else
constexpr bool has_half_blocks(InstructionSet) { return false; }
inline void load_half_block(float*, const std::byte*, std::size_t) {}
inline void store_half_block(std::byte*, const float*, std::size_t) {}
#endif

}  // namespace customccl::kernels
