#include "host/range_allocator.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "support/dice.h"

namespace customccl::test {
namespace {

constexpr std::size_t kPage = RangeAllocator::kPage;

TEST(RangeAllocator, HandsOutTheFirstRangeThatFits) {
  RangeAllocator ranges(10 * kPage);
  EXPECT_EQ(ranges.take(1), 0u);
  EXPECT_EQ(ranges.take(2 * kPage), kPage);
  EXPECT_EQ(ranges.take(kPage), 3 * kPage);
  ranges.give(kPage, 2 * kPage);
  EXPECT_EQ(ranges.take(3 * kPage), 4 * kPage);
  EXPECT_EQ(ranges.take(kPage + 1), kPage);
}

TEST(RangeAllocator, LeavesFreeWhatLiesBeforeAnAlignedRange) {
  RangeAllocator ranges(16 * kPage);
  EXPECT_EQ(ranges.take(kPage), 0u);
  EXPECT_EQ(ranges.take(kPage + 1, 4 * kPage), 4 * kPage);
  EXPECT_EQ(ranges.take(4 * kPage, 4 * kPage), 8 * kPage);
  EXPECT_EQ(ranges.take(5 * kPage, 4 * kPage), std::nullopt);
  EXPECT_EQ(ranges.take(3 * kPage), kPage);
  EXPECT_EQ(ranges.take(4 * kPage, 2 * kPage), 12 * kPage);
  EXPECT_EQ(ranges.take(2 * kPage), 6 * kPage);
  EXPECT_EQ(ranges.take(1), std::nullopt);
}

TEST(RangeAllocator, SaysWhenNothingFits) {
  RangeAllocator ranges(3 * kPage);
  EXPECT_EQ(ranges.take(4 * kPage), std::nullopt);
  EXPECT_EQ(ranges.take(3 * kPage), 0u);
  EXPECT_EQ(ranges.take(1), std::nullopt);
  ranges.give(0, 3 * kPage);
  EXPECT_EQ(ranges.take(3 * kPage), 0u);
}

TEST(RangeAllocator, HasNoRangeForWhatCannotBeRoundedUp) {
  constexpr std::size_t kMost = ~std::size_t{0};
  RangeAllocator ranges(3 * kPage);
  for (const std::size_t bytes : {kMost, kMost - kPage + 2, kMost / 2 + 1, 3 * kPage + 1, std::size_t{0}})
    EXPECT_EQ(ranges.take(bytes), std::nullopt) << bytes;
  EXPECT_EQ(ranges.take(3 * kPage), 0u);
}

// Against a list of owners, one per page.
TEST(RangeAllocator, NeverOverlapsAndFindsEverythingFreeAgain) {
  constexpr std::size_t kPages = 64;
  RangeAllocator ranges(kPages * kPage);
  std::vector<bool> owned(kPages, false);
  std::map<std::size_t, std::size_t> taken;  // offset -> bytes
  Dice dice(11);
  const auto mark = [&](std::size_t offset, std::size_t bytes, bool value) {
    for (std::size_t page = offset / kPage; page * kPage < offset + bytes; ++page) {
      ASSERT_EQ(owned[page], !value);
      owned[page] = value;
    }
  };
  const auto longest_free = [&] {
    std::size_t longest = 0, run = 0;
    for (const bool used : owned) longest = std::max(longest, run = used ? 0 : run + 1);
    return longest;
  };
  for (int step = 0; step < 20'000; ++step) {
    if (taken.empty() || dice.one_in(2)) {
      const std::size_t bytes = 1 + dice.below(std::uint64_t{8 * kPage});
      const std::size_t alignment = kPage << (dice.one_in(3) ? 2 : 0);
      const auto offset = ranges.take(bytes, alignment);
      if (alignment == kPage) {
        ASSERT_EQ(offset.has_value(), longest_free() * kPage >= RangeAllocator::rounded(bytes));
      }
      if (!offset) continue;
      ASSERT_EQ(*offset % alignment, 0u);
      mark(*offset, bytes, true);
      taken[*offset] = bytes;
    } else {
      const auto chosen = std::next(taken.begin(), static_cast<std::ptrdiff_t>(dice.below(taken.size())));
      mark(chosen->first, chosen->second, false);
      ranges.give(chosen->first, chosen->second);
      taken.erase(chosen);
    }
  }
  for (const auto& [offset, bytes] : taken) ranges.give(offset, bytes);
  EXPECT_EQ(ranges.take(kPages * kPage), 0u);
}

}  // namespace
}  // namespace customccl::test
