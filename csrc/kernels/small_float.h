#pragma once

#include <bit>
#include <cstdint>

// Floating formats of 8 and 16 bits to and from float32, by integer arithmetic without branches or tables, so that a
// loop over it becomes vector code. One description serves float16 and the four float8 formats.
//
// Decoding is exact. Encoding rounds to nearest even, keeps denormals, and treats overflow and NaN as torch's
// conversion does: float16 and e5m2 overflow to infinity, e4m3fn saturates (infinity too), the "uz" formats turn both
// into their NaN. No float32 denormal occurs on the way, so flush-to-zero modes change nothing.

namespace customccl::kernels {

struct SmallFloatFormat {
  int width;              // bits altogether
  int mantissa_bits;      // stored ones
  int bias;               // of the exponent
  std::int32_t largest;   // code of the largest finite number
  std::int32_t overflow;  // code of what is larger than that
  std::int32_t nan;       // code written for NaN

  bool operator==(const SmallFloatFormat&) const = default;
};

inline constexpr SmallFloatFormat kFloat16Format{16, 10, 15, 0x7bff, 0x7c00, 0x7e00};
inline constexpr SmallFloatFormat kFloat8E4M3FNFormat{8, 3, 7, 0x7e, 0x7e, 0x7f};
inline constexpr SmallFloatFormat kFloat8E4M3FNUZFormat{8, 3, 8, 0x7f, 0x80, 0x80};
inline constexpr SmallFloatFormat kFloat8E5M2Format{8, 2, 15, 0x7b, 0x7c, 0x7f};
inline constexpr SmallFloatFormat kFloat8E5M2FNUZFormat{8, 2, 16, 0x7f, 0x80, 0x80};

// The formats without negative zero use its code for NaN.
constexpr std::int32_t sign_bit(const SmallFloatFormat& format) { return 1 << (format.width - 1); }
constexpr bool has_negative_zero(const SmallFloatFormat& format) { return format.nan != sign_bit(format); }
constexpr bool has_infinity(const SmallFloatFormat& format) {
  return has_negative_zero(format) && format.overflow != format.largest;
}

inline constexpr std::int32_t kFloatInfinity = 0x7f800000;
inline constexpr std::int32_t kFloatNan = 0x7fc00000;

// `code` has only the low `width` bits set. Signed integers throughout: before AVX-512 only those compare in one step.
template <SmallFloatFormat format>
[[gnu::always_inline]] constexpr float decode(std::int32_t code) {
  constexpr int kShift = 23 - format.mantissa_bits;
  constexpr std::int32_t kRebias = (127 - format.bias) << 23;
  constexpr std::int32_t kOne = 1 << 23;
  constexpr std::int32_t kSign = sign_bit(format);
  const std::int32_t magnitude = code & (kSign - 1);
  const std::int32_t aligned = magnitude << kShift;
  // A denormal gets the leading one of the smallest normal number, which the subtraction takes away again.
  const float denormal = std::bit_cast<float>(aligned + kRebias + kOne) - std::bit_cast<float>(kRebias + kOne);
  std::int32_t bits = aligned < kOne ? std::bit_cast<std::int32_t>(denormal) : aligned + kRebias;
  if constexpr (has_infinity(format)) {
    bits = magnitude > format.largest ? (aligned | kFloatInfinity) : bits;
  } else {
    bits = (has_negative_zero(format) ? magnitude : code) == format.nan ? kFloatNan : bits;
  }
  const auto sign = static_cast<std::uint32_t>(code & kSign) << (32 - format.width);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) | sign);
}

template <SmallFloatFormat format>
[[gnu::always_inline]] constexpr std::int32_t encode(float value) {
  constexpr int kShift = 23 - format.mantissa_bits;
  constexpr std::int32_t kSmallestNormal = (128 - format.bias) << 23;
  // Adding this number moves the last bit of a denormal to the last bit of the float, rounding on the way.
  constexpr std::int32_t kAligner = (128 - format.bias + kShift) << 23;
  const auto all = std::bit_cast<std::uint32_t>(value);
  const auto bits = static_cast<std::int32_t>(all & 0x7fffffffu);
  const std::int32_t half = (1 << (kShift - 1)) - 1 + ((bits >> kShift) & 1);
  const std::int32_t normal = (bits - ((127 - format.bias) << 23) + half) >> kShift;
  const float denormal = std::bit_cast<float>(bits) + std::bit_cast<float>(kAligner);
  std::int32_t code = bits < kSmallestNormal ? std::bit_cast<std::int32_t>(denormal) - kAligner : normal;
  code = code > format.largest ? format.overflow : code;
  code = bits > kFloatInfinity ? format.nan : code;
  const auto sign = static_cast<std::int32_t>(all >> (32 - format.width)) & sign_bit(format);
  if constexpr (has_negative_zero(format)) return code | sign;
  return code == 0 ? 0 : code | sign;
}

}  // namespace customccl::kernels
