#include "host/host_arena.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "base/attempt.h"
#include "host/limbo.h"
#include "host/own_arena.h"
#include "support/failing_new.h"
#include "support/ranks.h"

namespace customccl::test {
namespace {

// Memory that the kernel really spends on the arena.
std::size_t bytes_present() {
  struct stat facts{};
  EXPECT_EQ(::fstat(arena().file().fd.get(), &facts), 0);
  return static_cast<std::size_t>(facts.st_blocks) * 512;
}

bool holds_only(const Block& block, std::byte value) {
  return std::all_of(block.data, block.data + block.bytes, [=](std::byte each) { return each == value; });
}
bool all_zero(const Block& block) { return holds_only(block, std::byte{0}); }

TEST(HostArena, IsOnePerProcessAndAlive) {
  EXPECT_EQ(&arena(), &arena());
  EXPECT_EQ(HostArena::existing(), &arena());
  EXPECT_TRUE(arena().header().life.adopted());
  EXPECT_FALSE(arena().header().life.dead());
}

TEST(HostArena, GivesZeroedMemoryAgainAndAgain) {
  for (int round = 0; round < 20; ++round) {
    Block block;
    ASSERT_TRUE(arena().allocate(100'000, block).ok());
    EXPECT_EQ(block.data, arena().base() + block.offset);
    EXPECT_GE(block.bytes, 100'000u);
    ASSERT_TRUE(all_zero(block));
    std::memset(block.data, 0x77, block.bytes);
    arena().release(block);
  }
}

TEST(HostArena, ReturnsThePagesOfReleasedMemoryToTheSystem) {
  const std::size_t before = bytes_present();
  const std::size_t in_use = arena().bytes_in_use();
  Block block;
  ASSERT_TRUE(arena().allocate(8 << 20, block).ok());
  EXPECT_GE(bytes_present(), before + (8 << 20));
  EXPECT_EQ(arena().bytes_in_use(), in_use + (8 << 20));
  arena().release(block);
  EXPECT_LE(bytes_present(), before);
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

TEST(HostArena, ABlockMayBeWithoutPagesForAWhile) {
  const std::size_t before = bytes_present();
  const std::size_t in_use = arena().bytes_in_use();
  Block block;
  ASSERT_TRUE(arena().allocate(8 << 20, block).ok());
  for (int round = 0; round < 2; ++round) {
    std::memset(block.data, 0x77, block.bytes);
    arena().give_pages(block);
    arena().give_pages(block);
    EXPECT_LE(bytes_present(), before);
    EXPECT_EQ(arena().bytes_in_use(), in_use);
    ASSERT_TRUE(arena().take_pages(block).ok());
    ASSERT_TRUE(arena().take_pages(block).ok());
    EXPECT_GE(bytes_present(), before + (8 << 20));
    EXPECT_EQ(arena().bytes_in_use(), in_use + (8 << 20));
    EXPECT_TRUE(all_zero(block));
  }
  arena().give_pages(block);
  arena().release(block);
  EXPECT_EQ(arena().bytes_in_use(), in_use);
  Block again;
  ASSERT_TRUE(arena().allocate(8 << 20, again).ok());
  EXPECT_EQ(arena().bytes_in_use(), in_use + (8 << 20));
  arena().release(again);
}

TEST(HostArena, RefusesMoreThanThereIsAndStaysUsable) {
  Block block;
  const Status status = arena().allocate(arena().bytes() + 1, block);
  EXPECT_EQ(status.code, Code::kSystem);
  EXPECT_NE(status.message().find("CUSTOMCCL_ARENA_BYTES"), std::string::npos) << status.message();
  ASSERT_TRUE(arena().allocate(10, block).ok());
  arena().release(block);
}

TEST(HostArena, RefusesSizesNearTheLargestNumberAndNothing) {
  const std::size_t in_use = arena().bytes_in_use();
  for (const std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - 4000, std::size_t{0}}) {
    Block block;
    EXPECT_EQ(arena().allocate(bytes, block).code, Code::kSystem);
    EXPECT_EQ(block.data, nullptr);
  }
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

TEST(HostArena, MemoryFillsItsPagesWhereNothingElseCanLieInThem) {
  constexpr std::size_t kPage = RangeAllocator::kPage;
  if (::sysconf(_SC_PAGESIZE) != static_cast<long>(kPage)) GTEST_SKIP() << "pages of the system hold several blocks";
  constexpr std::size_t kBytes = kPage + 904;
  Block block;
  ASSERT_TRUE(arena().allocate(kBytes, block).ok());
  EXPECT_TRUE(arena().fills_pages(block.data, kBytes));
  EXPECT_TRUE(arena().fills_pages(block.data, kPage));
  EXPECT_FALSE(arena().fills_pages(block.data, kBytes - 1));
  EXPECT_FALSE(arena().fills_pages(block.data + 64, kBytes - 64));
  EXPECT_FALSE(arena().fills_pages(block.data + 64, kPage - 64));
  arena().release(block);
}

TEST(HostArena, ServesManyThreadsAtOnce) {
  const std::size_t in_use = arena().bytes_in_use();
  run_threads(4, [](const Rank& rank) {
    for (int i = 0; i < 200; ++i) {
      Block block;
      ASSERT_TRUE(arena().allocate(static_cast<std::size_t>(1 + (i * 37 + rank.number() * 11) % 50'000), block).ok());
      std::memset(block.data, rank.number() + 1, block.bytes);
      const auto mark = static_cast<std::byte>(rank.number() + 1);
      ASSERT_TRUE(std::all_of(block.data, block.data + block.bytes, [&](std::byte value) { return value == mark; }));
      arena().release(block);
    }
  });
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

// Waits for the keeper, as long as it takes (the watchdog of the caller limits it).
template <class Condition>
void until(Condition condition) {
  while (!condition()) std::this_thread::yield();
}

TEST(Limbo, GivesMemoryBackOnlyOnceItIsUnreadable) {
  const Watchdog watchdog("limbo");
  const std::size_t in_use = arena().bytes_in_use();
  std::atomic<bool> unreadable{false};
  Block block;
  ASSERT_TRUE(arena().allocate(5000, block).ok());
  bury({block}, [&] { return unreadable.load(); });
  EXPECT_FALSE(reclaim_limbo());
  EXPECT_EQ(arena().bytes_in_use(), in_use + block.bytes);
  unreadable = true;
  until([&] { return arena().bytes_in_use() == in_use; });  // the keeper does it
  EXPECT_TRUE(reclaim_limbo());
}

// Whichever allocation fails while two blocks go back: who gets their places next is left alone.
TEST(Limbo, GivesNothingBackTwiceWhenMemoryRunsOut) {
  if (!allocations_can_fail()) GTEST_SKIP() << "a sanitizer has its own operator new";
  EXPECT_TRUE(reclaim_limbo());  // it is there
  bool failed = true;
  for (int n = 1; failed; ++n) {
    const std::size_t in_use = arena().bytes_in_use();
    Block blocks[4];  // every other one stays, so that no two can be joined
    for (Block& block : blocks) ASSERT_TRUE(arena().allocate(5000, block).ok());
    std::vector<Block> departed{blocks[0], blocks[2]};
    const std::function<bool()> unreadable = [] { return true; };
    const auto bury_them = [&] { bury(std::move(departed), unreadable); };
    fail_allocations_from(n);
    const bool buried = attempt(bury_them);
    failed = disarm() >= n;
    EXPECT_EQ(buried, n > 1);
    Block fresh[2];
    for (Block& block : fresh) {
      ASSERT_TRUE(arena().allocate(5000, block).ok());
      std::memset(block.data, 0x77, block.bytes);
    }
    EXPECT_TRUE(reclaim_limbo());
    for (const Block& block : fresh) {
      EXPECT_TRUE(holds_only(block, std::byte{0x77})) << n;
      arena().release(block);
    }
    arena().release(blocks[1]);
    arena().release(blocks[3]);
    const bool forgotten = n == 1;  // there was no memory to remember them by
    EXPECT_EQ(arena().bytes_in_use(), forgotten ? in_use + blocks[0].bytes + blocks[2].bytes : in_use) << n;
  }
}

// Nothing else would have the keeper look: the bell rings once.
TEST(Limbo, GivesMemoryBackThatThereWasNoMemoryToLookAfterAtFirst) {
  const Watchdog watchdog("limbo");
  const std::size_t in_use = arena().bytes_in_use();
  Block block;
  ASSERT_TRUE(arena().allocate(5000, block).ok());
  std::atomic<int> looks{0};
  bury({block}, [&] {
    if (++looks <= 2) throw std::bad_alloc();  // the look of this thread, and the keeper's first
    return true;
  });
  until([&] { return arena().bytes_in_use() == in_use; });  // the keeper does it
  EXPECT_EQ(looks, 3);
}

TEST(Limbo, GivesBackAtOnceWhatNobodyReads) {
  const std::size_t in_use = arena().bytes_in_use();
  Block block;
  ASSERT_TRUE(arena().allocate(5000, block).ok());
  bury({block}, [] { return true; });
  EXPECT_EQ(arena().bytes_in_use(), in_use);
}

}  // namespace
}  // namespace customccl::test
