#include "engines/shm/geometry.h"

#include <gtest/gtest.h>

#include "support/dice.h"

namespace customccl::test {
namespace {

using namespace shm;

TEST(Geometry, RoundsToWholeCacheLines) {
  EXPECT_EQ(elements_within(200, 4), 48u);
  EXPECT_EQ(elements_within(63, 1), 0u);
  EXPECT_EQ(elements_within(1 << 20, 16), 65536u);
  EXPECT_EQ(ceil_div(0, 5), 0u);
  EXPECT_EQ(round_up(65, 64), 128u);
}

TEST(Geometry, ChunksCoverEveryElementOnceAndInOrder) {
  Dice dice(3);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t count = dice.below(std::uint64_t{5000});
    const std::size_t chunk = 1 + dice.below(std::uint64_t{700});
    std::size_t covered = 0;
    for (std::size_t index = 0; index < ceil_div(count, chunk) + 2; ++index) {
      const Range range = chunk_of(count, chunk, index);
      ASSERT_EQ(range.first, covered);
      ASSERT_LE(range.count, chunk);
      covered += range.count;
    }
    ASSERT_EQ(covered, count);
  }
}

TEST(Geometry, EvenChunksKeepTheLimitTheMultipleAndTheSmallestNumberOfChunks) {
  Dice dice(4);
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t multiple = 1 + dice.below(std::uint64_t{64});
    const std::size_t limit = multiple * (1 + dice.below(std::uint64_t{50}));
    const std::size_t count = dice.below(std::uint64_t{20'000});
    const std::size_t chunk = even_chunk(count, limit, multiple);
    ASSERT_GT(chunk, 0u);
    ASSERT_LE(chunk, limit);
    ASSERT_EQ(chunk % multiple, 0u);
    ASSERT_EQ(ceil_div(count, chunk), ceil_div(count, limit));
  }
}

}  // namespace
}  // namespace customccl::test
