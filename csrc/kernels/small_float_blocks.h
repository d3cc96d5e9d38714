#pragma once

#include <cstddef>
#include <cstring>
#include <limits>

#include "kernels/small_float.h"
#include "platform/cpu.h"

// small_float.h applied to n consecutive elements, compiled for an instruction set.
//
// Functions of their own, called once per strip: inlined into every reduce loop the conversions would be over a
// megabyte of code for a fifth more speed. They are found by `isa`, so no two files give one name two meanings.

namespace customccl::kernels {

template <class Code, SmallFloatFormat format, std::size_t n>
[[gnu::always_inline]] inline void decode_all(float* wide, const std::byte* memory) {
  for (std::size_t i = 0; i < n; ++i) {
    Code code;
    std::memcpy(&code, memory + i * sizeof(Code), sizeof(Code));
    wide[i] = decode<format>(code);
  }
}

// A NaN loses its sign, as in all other element types.
template <class Code, SmallFloatFormat format, std::size_t n>
[[gnu::always_inline]] inline void encode_all(std::byte* memory, const float* wide) {
  for (std::size_t i = 0; i < n; ++i) {
    const float value = wide[i] == wide[i] ? wide[i] : std::numeric_limits<float>::quiet_NaN();
    const auto code = static_cast<Code>(encode<format>(value));
    std::memcpy(memory + i * sizeof(Code), &code, sizeof(Code));
  }
}

template <InstructionSet isa, class Code, SmallFloatFormat format, std::size_t n>
struct SmallFloatBlock {
  [[gnu::noinline]] static void load(float* wide, const std::byte* memory) {
    decode_all<Code, format, n>(wide, memory);
  }
  [[gnu::noinline]] static void store(std::byte* memory, const float* wide) {
    encode_all<Code, format, n>(memory, wide);
  }
};

#if defined(__x86_64__)
template <class Code, SmallFloatFormat format, std::size_t n>
struct SmallFloatBlock<InstructionSet::kAvx2, Code, format, n> {
  [[gnu::noinline, gnu::target("avx2")]] static void load(float* wide, const std::byte* memory) {
    decode_all<Code, format, n>(wide, memory);
  }
  [[gnu::noinline, gnu::target("avx2")]] static void store(std::byte* memory, const float* wide) {
    encode_all<Code, format, n>(memory, wide);
  }
};

template <class Code, SmallFloatFormat format, std::size_t n>
struct SmallFloatBlock<InstructionSet::kAvx512, Code, format, n> {
  [[gnu::noinline, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
  static void load(float* wide, const std::byte* memory) {
    decode_all<Code, format, n>(wide, memory);
  }
  [[gnu::noinline, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]]
  static void store(std::byte* memory, const float* wide) {
    encode_all<Code, format, n>(memory, wide);
  }
};
#endif

}  // namespace customccl::kernels
