#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

// The reduce operations on accumulators: combine(a, b) takes the next source in, finish(a, n) turns the accumulator of
// n sources into the result. Integers wrap: they are computed as unsigned numbers of at least 32 bits.

namespace customccl::kernels {

template <class Real>
struct Complex {
  Real real, imag;
};

// Where an integer is computed modulo a power of two without overflow.
template <class T>
using Modular = std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>;

struct Operation {
  template <class T>
  [[gnu::always_inline]] static T finish(T value, std::size_t) {
    return value;
  }
};

struct Sum : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Modular<T>>(a) + static_cast<Modular<T>>(b));
    } else {
      return a + b;
    }
  }
};

struct Product : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Modular<T>>(a) * static_cast<Modular<T>>(b));
    } else {
      return a * b;
    }
  }
  // Only additions: GCC 12 turns a subtraction beside an addition into fused multiply-adds whatever -ffp-contract says,
  // and those round once where the other instruction sets round twice.
  template <class Real>
  [[gnu::always_inline]] static Complex<Real> combine(Complex<Real> a, Complex<Real> b) {
    return {a.real * b.real + -a.imag * b.imag, a.real * b.imag + a.imag * b.real};
  }
};

// A NaN wins whichever side it is on; of equal numbers (0 and -0) the earlier source wins.
struct Min : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) return b < a ? b : a;
    return ((b < a) | (b != b)) ? b : a;
  }
};

struct Max : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    if constexpr (std::is_integral_v<T>) return b > a ? b : a;
    return ((b > a) | (b != b)) ? b : a;
  }
};

struct Avg : Sum {
  template <class T>
  [[gnu::always_inline]] static T finish(T sum, std::size_t n) {
    if constexpr (std::is_floating_point_v<T>) {
      return sum / static_cast<T>(n);
    } else if constexpr (!std::is_integral_v<T>) {
      return sum / static_cast<float>(n);  // of several numbers in a register
    } else if constexpr (sizeof(T) <= 4) {
      // Exact: a quotient that is not whole is at least 1/n away from the next whole number, a relative distance over
      // 2^-33, while rounding to double moves it by at most 2^-53. Unlike integer division this becomes vector code.
      return static_cast<T>(static_cast<std::int64_t>(static_cast<double>(sum) / static_cast<double>(n)));
    } else if constexpr (std::is_signed_v<T>) {
      return sum / static_cast<T>(n);
    } else {
      return sum / n;
    }
  }
};

struct Band : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Bor : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Bxor : Operation {
  template <class T>
  [[gnu::always_inline]] static T combine(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

}  // namespace customccl::kernels
