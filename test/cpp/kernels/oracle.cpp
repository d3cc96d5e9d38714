#include "kernels/oracle.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace customccl::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
T get(const std::byte* memory, std::size_t index = 0) {
  T value;
  std::memcpy(&value, memory + index * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void put(std::byte* memory, T value, std::size_t index = 0) {
  std::memcpy(memory + index * sizeof(T), &value, sizeof(T));
}

// The formats of 8 and 16 bits as their definitions say it.
struct Narrow {
  int width, mantissa, bias;
  bool infinities;    // the top exponent is infinity and NaN
  bool unsigned_nan;  // "uz": negative zero is NaN, nothing else is
  bool saturates;
};

double narrow_value(const Narrow& format, unsigned code) {
  const unsigned sign = code >> (format.width - 1);
  const unsigned magnitude = code & ((1u << (format.width - 1)) - 1);
  const int exponent = static_cast<int>(magnitude >> format.mantissa);
  const unsigned mantissa = magnitude & ((1u << format.mantissa) - 1);
  const int top = (1 << (format.width - 1 - format.mantissa)) - 1;
  if (format.unsigned_nan && sign == 1 && magnitude == 0) return kNan;
  double value = 0;
  if (format.infinities && exponent == top) {
    value = mantissa == 0 ? kInfinity : kNan;
  } else if (!format.infinities && !format.unsigned_nan && magnitude == (1u << (format.width - 1)) - 1) {
    value = kNan;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - format.bias - format.mantissa);
  } else {
    value = std::ldexp(mantissa + (1u << format.mantissa), exponent - format.bias - format.mantissa);
  }
  return sign == 1 ? -value : value;
}

// A format and its largest finite number, which takes a walk through the codes to find.
struct Format : Narrow {
  Format(const Narrow& narrow) : Narrow(narrow), largest((1u << (narrow.width - 1)) - 1) {
    while (!std::isfinite(narrow_value(narrow, largest))) --largest;
  }
  unsigned largest;
};

const Format& format_of(DType dtype) {
  static const Format half(Narrow{16, 10, 15, true, false, false}), brain(Narrow{16, 7, 127, true, false, false});
  static const Format e4m3fn(Narrow{8, 3, 7, false, false, true}), e4m3fnuz(Narrow{8, 3, 8, false, true, false});
  static const Format e5m2(Narrow{8, 2, 15, true, false, false}), e5m2fnuz(Narrow{8, 2, 16, false, true, false});
  switch (dtype) {
    case DType::kFloat16: return half;
    case DType::kBFloat16: return brain;
    case DType::kFloat8E4M3FN: return e4m3fn;
    case DType::kFloat8E4M3FNUZ: return e4m3fnuz;
    case DType::kFloat8E5M2: return e5m2;
    default: return e5m2fnuz;
  }
}

// The nearest value in the list, of two equally near the one with an even code. One step above the largest finite
// number stands for overflow.
unsigned narrow_code(const Format& format, double value) {
  const unsigned sign_bit = 1u << (format.width - 1);
  const unsigned largest = format.largest;
  const double top = narrow_value(format, largest);
  if (std::isnan(value)) {
    if (format.unsigned_nan) return sign_bit;
    return format.width == 16 ? (format.mantissa == 10 ? 0x7e00u : 0x7fc0u) : 0x7fu;
  }
  const unsigned sign = std::signbit(value) ? sign_bit : 0;
  const double magnitude = std::fabs(value);
  const double step = top - narrow_value(format, largest - 1);
  const bool overflow = magnitude > top + step / 2 || (magnitude == top + step / 2 && largest % 2 == 1);
  if (overflow) {
    if (format.unsigned_nan) return sign_bit;
    return (format.saturates ? largest : largest + 1) | sign;
  }
  unsigned low = 0, high = largest;  // narrow_value(low) <= magnitude, and so for every code below the answer
  while (low < high) {
    const unsigned middle = (low + high + 1) / 2;
    if (narrow_value(format, middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low < largest) {
    const double below = magnitude - narrow_value(format, low);
    const double above = narrow_value(format, low + 1) - magnitude;
    if (above < below || (above == below && low % 2 == 1)) ++low;
  }
  return low == 0 && format.unsigned_nan ? 0 : low | sign;
}

bool is_signed(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
}

// The low bytes of an integer as a number of its type.
std::int64_t as_signed(DType dtype, std::uint64_t bits) {
  const auto unused = static_cast<int>(64 - 8 * size_of(dtype));
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

std::uint64_t as_unsigned(DType dtype, std::uint64_t bits) {
  const auto unused = static_cast<int>(64 - 8 * size_of(dtype));
  return bits << unused >> unused;
}

bool less(DType dtype, std::uint64_t a, std::uint64_t b) {
  return is_signed(dtype) ? as_signed(dtype, a) < as_signed(dtype, b) : as_unsigned(dtype, a) < as_unsigned(dtype, b);
}

std::uint64_t combine_bits(DType dtype, ReduceOp op, std::uint64_t a, std::uint64_t b) {
  const bool boolean = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum: return boolean ? a | b : a + b;
    case ReduceOp::kProduct: return boolean ? a & b : a * b;
    case ReduceOp::kMin: return less(dtype, b, a) ? b : a;
    case ReduceOp::kMax: return less(dtype, a, b) ? b : a;
    case ReduceOp::kBand: return a & b;
    case ReduceOp::kBor: return a | b;
    case ReduceOp::kBxor: return a ^ b;
    default: return a + b;
  }
}

double combine_reals(DType dtype, ReduceOp op, double a, double b) {
  if ((op == ReduceOp::kMin || op == ReduceOp::kMax) && (std::isnan(a) || std::isnan(b))) return kNan;
  if (op == ReduceOp::kMin) return b < a ? b : a;
  if (op == ReduceOp::kMax) return b > a ? b : a;
  return accumulated(dtype, op == ReduceOp::kProduct ? a * b : a + b);
}

// Rounded after each step, as real hardware does it; double * double of a complex64 is exact before that.
Value multiply(DType dtype, const Value& a, const Value& b) {
  const auto round = [&](double x) { return accumulated(dtype, x); };
  return {0, round(round(a.real * b.real) - round(a.imag * b.imag)),
          round(round(a.real * b.imag) + round(a.imag * b.real))};
}

Value combine(DType dtype, ReduceOp op, const Value& a, const Value& b) {
  switch (info(dtype).kind) {
    case DTypeKind::kBoolean:
    case DTypeKind::kInteger: return {combine_bits(dtype, op, a.bits, b.bits), 0, 0};
    case DTypeKind::kFloating: return {0, combine_reals(dtype, op, a.real, b.real), 0};
    case DTypeKind::kComplex:
      if (op == ReduceOp::kProduct) return multiply(dtype, a, b);
      return {0, combine_reals(dtype, op, a.real, b.real), combine_reals(dtype, op, a.imag, b.imag)};
    case DTypeKind::kOpaque: break;
  }
  return {};
}

Value divided(DType dtype, const Value& sum, std::size_t n) {
  if (info(dtype).kind == DTypeKind::kInteger) {
    if (!is_signed(dtype)) return {as_unsigned(dtype, sum.bits) / n, 0, 0};
    return {static_cast<std::uint64_t>(as_signed(dtype, sum.bits) / static_cast<std::int64_t>(n)), 0, 0};
  }
  const auto count = static_cast<double>(n);
  return {0, accumulated(dtype, sum.real / count), accumulated(dtype, sum.imag / count)};
}

template <class Real>
Real canonical(double value) {
  return std::isnan(value) ? std::numeric_limits<Real>::quiet_NaN() : static_cast<Real>(value);
}

}  // namespace

double accumulated(DType dtype, double value) {
  const bool wide = dtype == DType::kFloat64 || dtype == DType::kComplex128;
  return wide ? value : static_cast<double>(static_cast<float>(value));
}

Value decode(DType dtype, const std::byte* memory) {
  switch (dtype) {
    case DType::kBool: return {get<std::uint8_t>(memory) != 0 ? 1u : 0u, 0, 0};
    case DType::kFloat32: return {0, static_cast<double>(get<float>(memory)), 0};
    case DType::kFloat64: return {0, get<double>(memory), 0};
    case DType::kComplex64:
      return {0, static_cast<double>(get<float>(memory)), static_cast<double>(get<float>(memory, 1))};
    case DType::kComplex128: return {0, get<double>(memory), get<double>(memory, 1)};
    default: break;
  }
  Value value;
  std::memcpy(&value.bits, memory, size_of(dtype));
  if (info(dtype).kind == DTypeKind::kInteger) return value;
  return {0, narrow_value(format_of(dtype), static_cast<unsigned>(value.bits)), 0};
}

void encode(DType dtype, const Value& value, std::byte* memory) {
  switch (dtype) {
    case DType::kFloat32: return put(memory, canonical<float>(value.real));
    case DType::kFloat64: return put(memory, canonical<double>(value.real));
    case DType::kComplex64:
      put(memory, canonical<float>(value.imag), 1);
      return put(memory, canonical<float>(value.real));
    case DType::kComplex128:
      put(memory, canonical<double>(value.imag), 1);
      return put(memory, canonical<double>(value.real));
    default: break;
  }
  std::uint64_t bits = value.bits;
  if (info(dtype).kind == DTypeKind::kFloating) bits = narrow_code(format_of(dtype), value.real);
  std::memcpy(memory, &bits, size_of(dtype));
}

void expected_reduce(DType dtype, ReduceOp op, const std::vector<const std::byte*>& sources, std::byte* result) {
  Value value = decode(dtype, sources.front());
  for (std::size_t k = 1; k < sources.size(); ++k) value = combine(dtype, op, value, decode(dtype, sources[k]));
  encode(dtype, op == ReduceOp::kAvg ? divided(dtype, value, sources.size()) : value, result);
}

void expected_scale(DType dtype, const std::byte* source, std::complex<double> factor, std::byte* result) {
  const Value value = decode(dtype, source);
  const Value by{0, accumulated(dtype, factor.real()), accumulated(dtype, factor.imag())};
  if (info(dtype).kind == DTypeKind::kComplex && by.imag != 0) return encode(dtype, multiply(dtype, value, by), result);
  encode(dtype, {0, accumulated(dtype, value.real * by.real), accumulated(dtype, value.imag * by.real)}, result);
}

void fill(DType dtype, std::size_t source, std::size_t index, std::byte* memory) {
  const std::uint64_t mixed = (index * 2654435761u + source * 40503u + 12345u) * 0x9e3779b97f4a7c15u >> 20;
  const double sign = mixed % 3 == 0 ? -1 : 1;
  const double step = size_of(dtype) == 1 ? 8 : 1024;
  const auto part = [&](std::uint64_t salt) {
    return sign * (0.25 + static_cast<double>((mixed ^ salt) % 4096) / step / 4);
  };
  Value value{mixed * 0x2545f4914f6cdd1du, part(0), part(0x555)};
  if (dtype == DType::kBool) value.bits = mixed % 5 == 0 ? mixed % 7 : 0;
  encode(dtype, value, memory);
}

}  // namespace customccl::test
