#include "core/message_begin.h"

// Of these, what is sent.

namespace customccl::test {
namespace {

TEST_F(MessageBegin, ASendIsOverOnceItLiesInTheRing) {
  EXPECT_EQ(begin(plain(Op::kSend, kSmall, 3, 1, 5)), Begun::kOver);
  EXPECT_EQ(ended_.sequence, 1u);
  EXPECT_EQ(ended_.source, -1);
  EXPECT_EQ(sent(), "e");
  EXPECT_EQ(port_.sent[0].header.tag, 5);
  expect_sent(3, kSmall);
  EXPECT_FALSE(lane_->busy());
}

TEST_F(MessageBegin, ASendWithoutRoomIsSentOnceThereIsSome) {
  port_.room = 0;
  const Letter letter = plain(Op::kSend, kSmall, 3, 1, 5);
  ASSERT_EQ(begin(letter), Begun::kNot);
  const auto task = go_on(letter, Begun::kNot);
  EXPECT_FALSE(task->done());
  port_.room = 9;
  lane_->drive();
  EXPECT_TRUE(task->done());
  expect_sent(3, kSmall);
}

TEST_F(MessageBegin, ASendOfWhichAPartIsOutGoesOnAsATask) {
  port_.room = 1;
  constexpr std::size_t kCount = 5000;  // three pieces
  const Letter letter = plain(Op::kSend, kCount, 3, 1, 5);
  ASSERT_EQ(begin(letter), Begun::kUnderWay);
  const auto task = go_on(letter, Begun::kUnderWay);
  EXPECT_TRUE(lane_->busy());
  EXPECT_EQ(sent(), "e");
  port_.room = 9;
  lane_->drive();
  ASSERT_TRUE(task->done());
  EXPECT_EQ(sent(), "emm");
  EXPECT_EQ(port_.ended, 1);
  expect_sent(3, kCount);
  EXPECT_FALSE(lane_->busy());
  EXPECT_EQ(task.use_count(), 1);
}

TEST_F(MessageBegin, ARingThatCannotBeMadeEndsTheGroupAndTheTask) {
  port_.opens = {Code::kSystem, "no memory"};
  const Letter letter = plain(Op::kSend, kSmall, 3, 1, 5);
  ASSERT_EQ(begin(letter), Begun::kNot);
  const auto task = go_on(letter, Begun::kNot);
  EXPECT_EQ(group_->health().message(), "no memory");
  lane_->close(group_->health());
  ASSERT_TRUE(task->done());
  EXPECT_EQ(task->status().code, Code::kSystem);
  EXPECT_NE(task->status().message().find("failed on rank 40: no memory"), std::string::npos)
      << task->status().message();
}

}  // namespace
}  // namespace customccl::test
