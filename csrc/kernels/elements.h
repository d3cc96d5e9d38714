#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/dtype.h"
#include "kernels/half_blocks.h"
#include "kernels/operations.h"
#include "kernels/small_float_blocks.h"
#include "platform/cpu.h"

// How each element type is read into accumulators and written back. An Element has
//   Wide                         what it is accumulated in
//   kSize                        bytes in memory
//   kByBlocks                    load and store are function calls, so a short strip costs hardly less than a long one
//   load<isa>(wide, memory)      n consecutive elements into n accumulators, in any order the matching
//   store<isa>(memory, wide)     store undoes
// Memory may be unaligned. Every NaN is stored as the one positive quiet NaN: which operand's payload survives an
// addition is the compiler's choice, so it would depend on the instruction set and on the element's place in a vector.

namespace customccl::kernels {

template <class T>
[[gnu::always_inline]] inline T read(const std::byte* memory) {
  T value;
  std::memcpy(&value, memory, sizeof(T));
  return value;
}

template <class T>
[[gnu::always_inline]] inline void write(std::byte* memory, T value) {
  std::memcpy(memory, &value, sizeof(T));
}

template <class T>
[[gnu::always_inline]] inline T canonical(T value) {
  if constexpr (std::is_floating_point_v<T>) return value == value ? value : std::numeric_limits<T>::quiet_NaN();
  return value;
}

template <class Real>
[[gnu::always_inline]] inline Complex<Real> canonical(Complex<Real> value) {
  return {canonical(value.real), canonical(value.imag)};
}

// Accumulated as it lies in memory: integers, float32, float64, complex numbers.
template <class T>
struct Plain {
  using Wide = T;
  static constexpr std::size_t kSize = sizeof(T);
  static constexpr bool kByBlocks = false;

  template <InstructionSet, std::size_t n>
  [[gnu::always_inline]] static void load(T (&wide)[n], const std::byte* memory) {
    for (std::size_t i = 0; i < n; ++i) wide[i] = read<T>(memory + i * kSize);
  }
  template <InstructionSet, std::size_t n>
  [[gnu::always_inline]] static void store(std::byte* memory, const T (&wide)[n]) {
    for (std::size_t i = 0; i < n; ++i) write(memory + i * kSize, canonical(wide[i]));
  }
};

// Any byte but 0 is true.
struct Boolean {
  using Wide = std::uint8_t;
  static constexpr std::size_t kSize = 1;
  static constexpr bool kByBlocks = false;

  template <InstructionSet, std::size_t n>
  [[gnu::always_inline]] static void load(Wide (&wide)[n], const std::byte* memory) {
    for (std::size_t i = 0; i < n; ++i) wide[i] = memory[i] != std::byte{0} ? 1 : 0;
  }
  template <InstructionSet, std::size_t n>
  [[gnu::always_inline]] static void store(std::byte* memory, const Wide (&wide)[n]) {
    for (std::size_t i = 0; i < n; ++i) memory[i] = std::byte{wide[i]};
  }
};

// bfloat16 is the upper half of a float32. Two neighbours are taken as one 32-bit word: even elements to the first half
// of the accumulators, odd ones to the second. So vector code needs no widening, narrowing or shuffling.
struct BFloat16 {
  using Wide = float;
  static constexpr std::size_t kSize = 2;
  static constexpr bool kByBlocks = false;
  static_assert(std::endian::native == std::endian::little);

  template <InstructionSet, std::size_t n>
  [[gnu::always_inline]] static void load(float (&wide)[n], const std::byte* memory) {
    if constexpr (n == 1) {
      wide[0] = std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(memory)} << 16);
    } else {
      for (std::size_t i = 0; i < n / 2; ++i) {
        const auto pair = read<std::uint32_t>(memory + 4 * i);
        wide[i] = std::bit_cast<float>(pair << 16);
        wide[n / 2 + i] = std::bit_cast<float>(pair & 0xffff0000u);
      }
    }
  }
  template <InstructionSet, std::size_t n>
  [[gnu::always_inline]] static void store(std::byte* memory, const float (&wide)[n]) {
    if constexpr (n == 1) {
      write(memory, static_cast<std::uint16_t>(rounded(wide[0]) >> 16));
    } else {
      for (std::size_t i = 0; i < n / 2; ++i) {
        write(memory + 4 * i, (rounded(wide[i]) >> 16) | (rounded(wide[n / 2 + i]) & 0xffff0000u));
      }
    }
  }

 private:
  // The upper half is `value` rounded to nearest even.
  [[gnu::always_inline]] static std::uint32_t rounded(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(canonical(value));
    return bits + 0x7fffu + ((bits >> 16) & 1u);
  }
};

// float16 and the float8 formats.
template <class Code, SmallFloatFormat format>
struct SmallFloat {
  using Wide = float;
  static constexpr std::size_t kSize = sizeof(Code);
  static constexpr bool kByBlocks = true;

  template <InstructionSet isa, std::size_t n>
  [[gnu::always_inline]] static void load(float (&wide)[n], const std::byte* memory) {
    if constexpr (by_processor<isa, n>()) {
      load_half_block(wide, memory, n);
    } else {
      SmallFloatBlock<isa, Code, format, n>::load(wide, memory);
    }
  }
  template <InstructionSet isa, std::size_t n>
  [[gnu::always_inline]] static void store(std::byte* memory, const float (&wide)[n]) {
    if constexpr (by_processor<isa, n>()) {
      store_half_block(memory, wide, n);
    } else {
      SmallFloatBlock<isa, Code, format, n>::store(memory, wide);
    }
  }

 private:
  template <InstructionSet isa, std::size_t n>
  static constexpr bool by_processor() {
    return format == kFloat16Format && has_half_blocks(isa) && n % kHalfBlock == 0;
  }
};

template <DType>
struct ElementOf;
template <> struct ElementOf<DType::kBool> { using type = Boolean; };
template <> struct ElementOf<DType::kUInt8> { using type = Plain<std::uint8_t>; };
template <> struct ElementOf<DType::kInt8> { using type = Plain<std::int8_t>; };
template <> struct ElementOf<DType::kUInt16> { using type = Plain<std::uint16_t>; };
template <> struct ElementOf<DType::kInt16> { using type = Plain<std::int16_t>; };
template <> struct ElementOf<DType::kUInt32> { using type = Plain<std::uint32_t>; };
template <> struct ElementOf<DType::kInt32> { using type = Plain<std::int32_t>; };
template <> struct ElementOf<DType::kUInt64> { using type = Plain<std::uint64_t>; };
template <> struct ElementOf<DType::kInt64> { using type = Plain<std::int64_t>; };
template <> struct ElementOf<DType::kFloat16> { using type = SmallFloat<std::uint16_t, kFloat16Format>; };
template <> struct ElementOf<DType::kBFloat16> { using type = BFloat16; };
template <> struct ElementOf<DType::kFloat32> { using type = Plain<float>; };
template <> struct ElementOf<DType::kFloat64> { using type = Plain<double>; };
template <> struct ElementOf<DType::kComplex64> { using type = Plain<Complex<float>>; };
template <> struct ElementOf<DType::kComplex128> { using type = Plain<Complex<double>>; };
template <> struct ElementOf<DType::kFloat8E4M3FN> { using type = SmallFloat<std::uint8_t, kFloat8E4M3FNFormat>; };
template <> struct ElementOf<DType::kFloat8E4M3FNUZ> { using type = SmallFloat<std::uint8_t, kFloat8E4M3FNUZFormat>; };
template <> struct ElementOf<DType::kFloat8E5M2> { using type = SmallFloat<std::uint8_t, kFloat8E5M2Format>; };
template <> struct ElementOf<DType::kFloat8E5M2FNUZ> { using type = SmallFloat<std::uint8_t, kFloat8E5M2FNUZFormat>; };

}  // namespace customccl::kernels
