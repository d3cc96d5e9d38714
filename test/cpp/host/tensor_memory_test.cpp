#include "host/tensor_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "host/own_arena.h"
#include "support/failing_new.h"
#include "support/ranks.h"

namespace customccl::test {
namespace {

constexpr std::size_t kBytes = 1'000'001;

class TensorMemoryTest : public ::testing::Test {
 protected:
  TensorMemoryTest() {
    Block block;  // the arena and what it needs for itself
    EXPECT_TRUE(memory.allocate(1, block).ok());
    memory.release(block, 1);
    memory.give_back_all();
    in_use = arena().bytes_in_use();
  }
  ~TensorMemoryTest() override { memory.give_back_all(); }

  Block allocate(std::size_t bytes) {
    Block block;
    EXPECT_TRUE(memory.allocate(bytes, block).ok());
    EXPECT_GE(block.bytes, bytes);
    EXPECT_TRUE(arena().shares(block.data, bytes));
    return block;
  }

  TensorMemory memory;
  std::size_t in_use = 0;
};

TEST_F(TensorMemoryTest, WhatATensorLayInServesTheNextOfAsManyBytes) {
  const Block first = allocate(kBytes);
  const Block second = allocate(kBytes);
  EXPECT_NE(first.data, second.data);
  std::memset(first.data, 0x77, kBytes);
  memory.release(first, kBytes);
  EXPECT_EQ(memory.waiting_bytes(), first.bytes);
  const std::size_t before = arena().bytes_in_use();
  const Block again = allocate(kBytes);
  EXPECT_EQ(again.data, first.data);
  EXPECT_EQ(again.data[kBytes - 1], std::byte{0x77});  // with its pages
  EXPECT_EQ(memory.waiting_bytes(), 0u);
  EXPECT_EQ(arena().bytes_in_use(), before);
  memory.release(again, kBytes);
  memory.release(second, kBytes);
}

TEST_F(TensorMemoryTest, NoOtherSizeTakesIt) {
  memory.release(allocate(10 * kBytes), 10 * kBytes);  // so much may wait
  memory.give_back_all();
  const Block first = allocate(kBytes);
  memory.release(first, kBytes);
  for (const std::size_t bytes : {kBytes - 1, kBytes + 1, std::size_t{1}}) {
    const Block other = allocate(bytes);
    EXPECT_NE(other.data, first.data) << bytes;  // in whose last page another tensor ends
    memory.release(other, bytes);
  }
}

TEST_F(TensorMemoryTest, LargeOnesBeginHugePages) {
  const Block little = allocate(1);
  for (const std::size_t bytes : {kHugePage, 3 * kHugePage + 12345}) {
    const Block block = allocate(bytes);
    EXPECT_EQ(block.offset % kHugePage, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % kHugePage, 0u);
    EXPECT_TRUE(std::all_of(block.data, block.data + bytes, [](std::byte value) { return value == std::byte{0}; }));
    EXPECT_EQ(block.bytes, RangeAllocator::rounded(bytes));
    memory.release(block, bytes);
  }
  memory.release(little, 1);
}

TEST_F(TensorMemoryTest, WhatHasWaitedLongGoesBackToTheSystem) {
  const Clock::time_point begin = Clock::now();
  const Block block = allocate(kBytes);
  EXPECT_EQ(memory.tidy(begin + std::chrono::hours(1)), std::nullopt);  // what is in use stays
  memory.release(block, kBytes);
  const Clock::time_point end = Clock::now();
  const auto next = memory.tidy(begin + TensorMemory::kPatience / 2);
  ASSERT_TRUE(next.has_value());
  EXPECT_GE(*next, begin + TensorMemory::kPatience);
  EXPECT_LE(*next, end + TensorMemory::kPatience);
  EXPECT_EQ(memory.waiting_bytes(), block.bytes);
  EXPECT_EQ(memory.tidy(*next), std::nullopt);
  EXPECT_EQ(memory.waiting_bytes(), 0u);
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

TEST_F(TensorMemoryTest, ThatAndWhatIsInUseAreAtMostOneAndAHalfTimesWhatWas) {
  std::size_t most = 0;
  for (std::size_t bytes = kBytes; bytes < 40 * kBytes; bytes += kBytes) {
    const Block block = allocate(bytes);
    most = std::max(most, block.bytes);
    EXPECT_LE(memory.waiting_bytes() + block.bytes, most + most / 2) << bytes;
    memory.release(block, bytes);
    EXPECT_LE(memory.waiting_bytes(), most + most / 2) << bytes;
    EXPECT_GE(memory.waiting_bytes(), block.bytes) << bytes;  // the latest stays
    EXPECT_EQ(arena().bytes_in_use(), in_use + memory.waiting_bytes()) << bytes;
  }
}

TEST_F(TensorMemoryTest, GoesBackAtOnceWhereThereIsNoMemoryToRememberItBy) {
  if (!allocations_can_fail()) GTEST_SKIP() << "a sanitizer has its own operator new";
  const Block block = allocate(kBytes);
  fail_allocations_from(1);
  memory.release(block, kBytes);
  disarm();
  EXPECT_EQ(memory.waiting_bytes(), 0u);
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

TEST_F(TensorMemoryTest, ServesManyThreadsAtOnce) {
  run_threads(4, [this](const Rank& rank) {
    const auto mark = static_cast<std::byte>(rank.number() + 1);
    for (int i = 0; i < 400; ++i) {
      const auto bytes = static_cast<std::size_t>(1 + (i * 37 + rank.number()) % 5 * 10'000);
      const Block block = allocate(bytes);
      std::memset(block.data, static_cast<int>(mark), bytes);
      ASSERT_TRUE(std::all_of(block.data, block.data + bytes, [&](std::byte value) { return value == mark; }));
      memory.release(block, bytes);
      if (i % 50 == rank.number()) memory.give_back_all();
    }
  });
  memory.give_back_all();
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

TEST(TensorMemoryOfTheProcess, GivesWayToWhatFindsNoRoom) {
  TensorMemory& memory = TensorMemory::of_process();
  memory.give_back_all();
  const std::size_t in_use = arena().bytes_in_use();
  Block block;
  ASSERT_TRUE(memory.allocate(kBytes, block).ok());
  memory.release(block, kBytes);
  EXPECT_NE(memory.waiting_bytes(), 0u);
  EXPECT_FALSE(arena().allocate(arena().bytes() + 1, block).ok());
  EXPECT_EQ(memory.waiting_bytes(), 0u);
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

TEST(TensorMemoryOfTheProcess, IsOneForAll) { EXPECT_EQ(&TensorMemory::of_process(), &TensorMemory::of_process()); }

}  // namespace
}  // namespace customccl::test
