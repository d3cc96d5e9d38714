#include "kernels/strided.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/guarded.h"

// pack() and unpack() against the index formula: element i of a layout lies at the sum of coordinate * stride.

namespace customccl::test {
namespace {

std::size_t elements(const Layout& layout) {
  return std::accumulate(layout.dims.begin(), layout.dims.end(), std::size_t{1},
                         [](std::size_t n, const Dim& dim) { return n * static_cast<std::size_t>(dim.size); });
}

// Elements of memory from the first to behind the last.
std::size_t extent(const Layout& layout) {
  return std::accumulate(layout.dims.begin(), layout.dims.end(), std::size_t{1}, [](std::size_t n, const Dim& dim) {
    return n + static_cast<std::size_t>((dim.size - 1) * dim.stride);
  });
}

std::size_t place(const Layout& layout, std::size_t index) {
  std::size_t offset = 0;
  for (std::size_t d = layout.dims.size(); d-- > 0;) {
    const auto size = static_cast<std::size_t>(layout.dims[d].size);
    offset += index % size * static_cast<std::size_t>(layout.dims[d].stride);
    index /= size;
  }
  return offset;
}

std::string describe(const Layout& layout) {
  std::string text;
  for (const Dim& dim : layout.dims) text += std::to_string(dim.size) + ":" + std::to_string(dim.stride) + " ";
  return text;
}

// Dimensions in random order of significance, with gaps between; `expanded` allows strides of zero.
Layout random_layout(std::mt19937& random, bool expanded) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); };
  Layout layout;
  layout.dims.resize(static_cast<std::size_t>(pick(1, 4)));
  std::vector<std::size_t> order(layout.dims.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::int64_t stride = pick(0, 1) == 0 ? 1 : pick(1, 3);
  for (const std::size_t d : order) {
    const std::int64_t size = pick(2, layout.dims.size() < 3 ? 40 : 9);
    const bool repeated = expanded && pick(0, 4) == 0;
    layout.dims[d] = {size, repeated ? 0 : stride};
    if (!repeated) stride = stride * size + (pick(0, 1) == 0 ? 0 : pick(0, 3));
  }
  return layout;
}

void number(std::byte* memory, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::byte>(i * 131 + i / 253);
}

void expect_packed(const Layout& layout, std::size_t begin, std::size_t first, std::size_t count, std::size_t size,
                   Store store) {
  Guarded tensor(extent(layout) * size, size == 2 ? 1 : size), packed(count * size, first % 64);
  number(tensor.data(), tensor.bytes().size());
  const View view{tensor.data(), &layout, begin, elements(layout) - begin};
  pack(packed.data(), view, first, count, size, store);
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const from = tensor.data() + place(layout, begin + first + i) * size;
    ASSERT_EQ(std::memcmp(packed.data() + i * size, from, size), 0) << describe(layout) << "element " << first + i;
  }
  ASSERT_TRUE(packed.guards_intact()) << describe(layout);
}

void expect_unpacked(const Layout& layout, std::size_t begin, std::size_t first, std::size_t count, std::size_t size,
                     Store store) {
  Guarded tensor(extent(layout) * size, size == 4 ? 3 : size), source(count * size, first % 64);
  number(source.data(), source.bytes().size());
  std::vector<std::byte> expected(tensor.bytes().begin(), tensor.bytes().end());
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(expected.data() + place(layout, begin + first + i) * size, source.data() + i * size, size);
  }
  const View view{tensor.data(), &layout, begin, elements(layout) - begin};
  unpack(view, first, count, source.data(), size, store);
  ASSERT_EQ(std::memcmp(tensor.data(), expected.data(), expected.size()), 0)
      << describe(layout) << first << "+" << count;
  ASSERT_TRUE(tensor.guards_intact()) << describe(layout);
}

class Strided : public testing::TestWithParam<std::size_t> {};

TEST_P(Strided, RandomRangesOfRandomLayoutsFollowTheIndexFormula) {
  std::mt19937 random(static_cast<unsigned>(GetParam()) * 977);
  for (int round = 0; round < 400; ++round) {
    const bool packing = round % 2 == 0;
    const Layout layout = random_layout(random, packing);
    const std::size_t total = elements(layout);
    const auto pick = [&](std::size_t high) { return std::uniform_int_distribution<std::size_t>(0, high)(random); };
    const std::size_t begin = round % 3 == 0 ? pick(total) : 0;
    const std::size_t first = pick(total - begin);
    const std::size_t count = round % 5 == 0 ? total - begin - first : pick(total - begin - first);
    const Store store = round % 4 < 2 ? Store::kPlain : Store::kStreaming;
    const auto expect = packing ? expect_packed : expect_unpacked;
    ASSERT_NO_FATAL_FAILURE(expect(layout, begin, first, count, GetParam(), store));
  }
}

TEST_P(Strided, LongRowsAndTransposesWork) {
  const Layout shapes[] = {{{{3, 5000}, {4097, 1}}}, {{{300, 1}, {200, 300}}}, {{{2, 1}, {1000, 7}}},
                           {{{65, 130}, {64, 2}}},   {{{5, 0}, {100, 1}}},     {{{2, 70000}, {129, 1}, {257, 130}}}};
  for (const Layout& layout : shapes) {
    const std::size_t total = elements(layout);
    for (const Store store : {Store::kPlain, Store::kStreaming}) {
      ASSERT_NO_FATAL_FAILURE(expect_packed(layout, 0, 0, total, GetParam(), store));
      ASSERT_NO_FATAL_FAILURE(expect_packed(layout, 3, total / 7, total / 2, GetParam(), store));
      if (layout.dims.front().stride == 0) continue;
      ASSERT_NO_FATAL_FAILURE(expect_unpacked(layout, 0, 0, total, GetParam(), store));
      ASSERT_NO_FATAL_FAILURE(expect_unpacked(layout, 5, total / 3, total / 2, GetParam(), store));
    }
  }
}

TEST_P(Strided, ContiguousViewsAreOneCopy) {
  const std::size_t size = GetParam();
  Guarded tensor(100 * size), packed(40 * size);
  number(tensor.data(), 100 * size);
  const View view{tensor.data(), nullptr, 20, 80};
  pack(packed.data(), view, 15, 40, size, Store::kPlain);
  EXPECT_EQ(std::memcmp(packed.data(), tensor.data() + 35 * size, 40 * size), 0);
  number(packed.data(), 40 * size);
  unpack(view, 5, 40, packed.data(), size, Store::kStreaming);
  EXPECT_EQ(std::memcmp(packed.data(), tensor.data() + 25 * size, 40 * size), 0);
  EXPECT_TRUE(tensor.guards_intact() && packed.guards_intact());
}

TEST_P(Strided, AnEmptyRangeTouchesNothing) {
  const Layout layout{{{4, 9}, {3, 2}}};
  Guarded tensor(extent(layout) * GetParam());
  const View view{tensor.data(), &layout, 0, 12};
  pack(nullptr, view, 12, 0, GetParam(), Store::kPlain);
  unpack(view, 0, 0, nullptr, GetParam(), Store::kStreaming);
  EXPECT_TRUE(tensor.guards_intact());
}

TEST(StridedScalar, ALayoutWithoutDimensionsIsOneElement) {
  const Layout layout;
  std::int32_t value = 41, packed = 0;
  const View view{reinterpret_cast<std::byte*>(&value), &layout, 0, 1};
  pack(reinterpret_cast<std::byte*>(&packed), view, 0, 1, 4, Store::kPlain);
  EXPECT_EQ(packed, 41);
}

INSTANTIATE_TEST_SUITE_P(Bytes, Strided, testing::Values(1, 2, 4, 8, 16));

}  // namespace
}  // namespace customccl::test
