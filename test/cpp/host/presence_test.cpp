#include "host/presence.h"

#include <gtest/gtest.h>

#include <vector>

#include "host/own_arena.h"

namespace customccl::test {
namespace {

TEST(Presence, IsSeenToReadThenOnlyToShowThenToBeGone) {
  Presence presence;
  ASSERT_TRUE(presence.begin(arena()).ok());
  const std::byte* word = arena().base() + presence.offset();
  EXPECT_TRUE(Presence::reads(word, presence.number()));
  EXPECT_TRUE(Presence::shows(word, presence.number()));
  presence.close();
  EXPECT_FALSE(Presence::reads(word, presence.number()));
  EXPECT_TRUE(Presence::shows(word, presence.number()));
  presence.end();
  EXPECT_FALSE(Presence::reads(word, presence.number()));
  EXPECT_FALSE(Presence::shows(word, presence.number()));
}

TEST(Presence, OfALaterGroupInTheSameWordIsNotTakenForAnEarlierOnes) {
  Presence earlier;
  ASSERT_TRUE(earlier.begin(arena()).ok());
  const std::size_t offset = earlier.offset();
  const std::uint64_t number = earlier.number();
  earlier.end();
  Presence later;
  ASSERT_TRUE(later.begin(arena()).ok());
  ASSERT_EQ(later.offset(), offset);
  EXPECT_FALSE(Presence::reads(arena().base() + offset, number));
  EXPECT_FALSE(Presence::shows(arena().base() + offset, number));
  later.end();
}

TEST(Presence, WordsNeverServeAsOtherMemory) {
  Presence presence;
  ASSERT_TRUE(presence.begin(arena()).ok());
  const std::size_t offset = presence.offset();
  presence.end();
  std::vector<Block> blocks(100);
  for (Block& block : blocks) {
    ASSERT_TRUE(arena().allocate(4096, block).ok());
    EXPECT_TRUE(offset < block.offset || offset >= block.offset + block.bytes);
  }
  for (const Block& block : blocks) arena().release(block);
}

}  // namespace
}  // namespace customccl::test
