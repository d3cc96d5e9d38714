#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/float_mode.h"
#include "kernels/oracle.h"
#include "kernels/reduce.h"
#include "kernels/reduce_table.h"
#include "kernels/tables.h"

// Every pair of the values where arithmetic is peculiar: NaN of both signs and kinds, infinities, both zeros,
// denormals, overflow, ties of rounding, integers at their limits. For types of one byte: every pair there is.

namespace customccl::test {
namespace {

using Elements = std::vector<std::byte>;

template <class T>
void append(Elements& elements, T value) {
  const std::size_t at = elements.size();
  elements.resize(at + sizeof(T));
  std::memcpy(elements.data() + at, &value, sizeof(T));
}

template <class T>
std::vector<T> peculiar_floats() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{0,
                     Limits::denorm_min(),
                     3 * Limits::denorm_min(),
                     Limits::min(),
                     Limits::min() - Limits::denorm_min(),
                     1,
                     1 + Limits::epsilon(),
                     3,
                     T(1) / 3,
                     Limits::max(),
                     Limits::max() / 2,
                     Limits::infinity(),
                     Limits::quiet_NaN(),
                     Limits::signaling_NaN(),
                     1 / Limits::epsilon(),
                     Limits::epsilon() / 2};
  for (std::size_t i = 0, n = all.size(); i < n; ++i) all.push_back(-all[i]);
  return all;
}

template <class T>
Elements complex_of(const std::vector<T>& parts) {
  Elements elements;
  for (const T real : parts) {
    for (const T imag : {T(0), T(-2), std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
      append(elements, real);
      append(elements, imag);
    }
  }
  return elements;
}

Elements patterns(std::size_t size, std::initializer_list<std::uint64_t> upper_halves) {
  Elements elements;
  for (const std::uint64_t pattern : upper_halves) {
    for (const std::uint64_t low : {0ull, 1ull, 0x7full, 0x80ull, 0xffull}) {
      const std::uint64_t value = pattern << (8 * (size - 1)) | low;
      const std::size_t at = elements.size();
      elements.resize(at + size);
      std::memcpy(elements.data() + at, &value, size);
    }
  }
  return elements;
}

Elements peculiar(DType dtype) {
  Elements elements;
  switch (dtype) {
    case DType::kFloat32:
      for (const float value : peculiar_floats<float>()) append(elements, value);
      return elements;
    case DType::kFloat64:
      for (const double value : peculiar_floats<double>()) append(elements, value);
      return elements;
    case DType::kComplex64: return complex_of(peculiar_floats<float>());
    case DType::kComplex128: return complex_of(peculiar_floats<double>());
    default: break;
  }
  if (size_of(dtype) == 1) {
    for (unsigned code = 0; code < 256; ++code) append(elements, static_cast<std::uint8_t>(code));
    return elements;
  }
  // 16-bit floats: denormals, around 1, the largest, infinity and NaN, both signs. Integers: near zero and limits.
  return patterns(size_of(dtype), {0x00, 0x01, 0x02, 0x08, 0x3b, 0x3c, 0x3f, 0x40, 0x78, 0x7b, 0x7c,
                                   0x7e, 0x7f, 0x80, 0x81, 0x88, 0xbc, 0xbf, 0xfb, 0xfc, 0xfe, 0xff});
}

class SpecialValues : public testing::TestWithParam<Case> {};

TEST_P(SpecialValues, AreReducedLikeTheOracleOnEveryInstructionSet) {
  const auto [dtype, op] = GetParam();
  const std::size_t size = size_of(dtype);
  const Elements values = peculiar(dtype);
  const std::size_t n = values.size() / size;
  Elements first, second, expected(n * n * size);
  for (std::size_t i = 0; i < n * n; ++i) {
    const auto element = [&](std::size_t index) { return values.begin() + static_cast<std::ptrdiff_t>(index * size); };
    first.insert(first.end(), element(i / n), element(i / n + 1));
    second.insert(second.end(), element(i % n), element(i % n + 1));
    expected_reduce(dtype, op, {first.data() + i * size, second.data() + i * size}, expected.data() + i * size);
  }
  for (const InstructionSet set : instruction_sets()) {
    Elements result(expected.size());
    const std::vector<const std::byte*> sources{first.data(), second.data()};
    kernels::reduce(kernels::reduce_table(set), result.data(), sources, n * n, dtype, op, {Origin::kMemory});
    for (std::size_t i = 0; i < n * n; ++i) {
      ASSERT_EQ(std::memcmp(result.data() + i * size, expected.data() + i * size, size), 0)
          << to_string(GetParam()) << " on " << customccl::to_string(set) << ": values " << i / n << " and " << i % n;
    }
  }
}

// The same element, alone and at every place of a longer call, has the same bits.
TEST_P(SpecialValues, DoNotDependOnThePlaceInTheBuffer) {
  const auto [dtype, op] = GetParam();
  const std::size_t size = size_of(dtype);
  const Elements values = peculiar(dtype);
  const std::size_t n = values.size() / size;
  for (const InstructionSet set : instruction_sets()) {
    for (const std::size_t sources_count : {1u, 2u, 3u}) {
      Elements whole(n * size);
      std::vector<Elements> sources(sources_count, values);
      for (std::size_t k = 0; k < sources_count; ++k) {
        std::rotate(sources[k].begin(), sources[k].begin() + static_cast<std::ptrdiff_t>(k * 5 * size),
                    sources[k].end());
      }
      std::vector<const std::byte*> at(sources_count);
      for (std::size_t k = 0; k < sources_count; ++k) at[k] = sources[k].data();
      kernels::reduce(kernels::reduce_table(set), whole.data(), at, n, dtype, op, {});
      for (std::size_t i = 0; i < n; ++i) {
        Elements single(size);
        for (std::size_t k = 0; k < sources_count; ++k) at[k] = sources[k].data() + i * size;
        kernels::reduce(kernels::reduce_table(set), single.data(), at, 1, dtype, op, {});
        ASSERT_EQ(std::memcmp(single.data(), whole.data() + i * size, size), 0) << i << " of " << sources_count;
      }
    }
  }
}

// A thread that flushes denormals to zero, rounds otherwise, or both.
class OtherFloats {
 public:
  explicit OtherFloats(kernels::FloatMode mode) { kernels::set_float_mode(usual_ | mode); }
  ~OtherFloats() { kernels::set_float_mode(usual_); }
  OtherFloats(const OtherFloats&) = delete;
  OtherFloats& operator=(const OtherFloats&) = delete;

 private:
  kernels::FloatMode usual_ = kernels::float_mode();
};

constexpr std::array kOtherModes{kernels::kFlushing, kernels::kRounding, kernels::kRounding / 3,
                                 kernels::kFlushing | kernels::kRounding / 3 * 2};

// Also of the factor and the scaled elements of PREMUL_SUM.
TEST_P(SpecialValues, DoNotDependOnHowTheThreadComputes) {
  const DType dtype = GetParam().dtype;
  const ReduceOp op = GetParam().op;
  const std::size_t size = size_of(dtype);
  const Elements values = peculiar(dtype);
  const std::size_t n = values.size() / size;
  const auto carry_out = [dtype, op, size, n, &values](InstructionSet set) {
    const kernels::ReduceTable& table = kernels::reduce_table(set);
    Elements shifted = values, result(values.size());
    if (op == ReduceOp::kPremulSum) kernels::scale(table, shifted.data(), values.data(), n, dtype, {1.0 / 3, 1e-320});
    const std::vector<const std::byte*> sources{shifted.data(), values.data(), values.data() + size};
    kernels::reduce(table, result.data(), sources, n - 1, dtype, op, {});
    kernels::reduce(table, result.data() + (n - 1) * size, std::span(sources).first(1), 1, dtype, op, {});
    return result;
  };
  for (const InstructionSet set : instruction_sets()) {
    const Elements expected = carry_out(set);
    for (const kernels::FloatMode mode : kOtherModes) {
      const OtherFloats other(mode);
      const kernels::FloatMode before = kernels::float_mode();
      const Elements result = carry_out(set);
      ASSERT_EQ(kernels::float_mode(), before);
      ASSERT_EQ(result, expected) << to_string(GetParam()) << " on " << customccl::to_string(set) << " in mode "
                                  << mode;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SpecialValues, testing::ValuesIn(cases()),
                         [](const auto& test) { return to_string(test.param); });

TEST(Booleans, AreWrittenAsZeroOrOne) {
  const std::vector<std::byte> odd{std::byte{2}, std::byte{0}, std::byte{0xff}, std::byte{1}};
  std::vector<std::byte> result(4);
  const std::vector<const std::byte*> one{odd.data()};
  reduce(result.data(), one, 4, DType::kBool, ReduceOp::kSum);
  EXPECT_EQ(result, (std::vector{std::byte{1}, std::byte{0}, std::byte{1}, std::byte{1}}));
}

TEST(Averages, OfIntegersTruncateTowardZero) {
  const std::vector<std::int32_t> a{-7, 7, std::numeric_limits<std::int32_t>::min()}, b{0, 0, 1};
  std::vector<std::int32_t> result(3);
  const std::vector<const std::byte*> sources{reinterpret_cast<const std::byte*>(a.data()),
                                              reinterpret_cast<const std::byte*>(b.data())};
  reduce(reinterpret_cast<std::byte*>(result.data()), sources, 3, DType::kInt32, ReduceOp::kAvg);
  EXPECT_EQ(result, (std::vector<std::int32_t>{-3, 3, -1073741823}));
}

}  // namespace
}  // namespace customccl::test
