#include "core/message_begin.h"

// Of these, what is received, and who waits for his turn.

namespace customccl::test {
namespace {

constexpr std::size_t kPiece = 2000;   // elements
constexpr std::size_t kPieces = 3000;  // elements of a message in two of them

TEST_F(MessageBegin, AMessageThatIsHereIsOverAtOnce) {
  arrive(3, 5);
  const Letter letter = plain(Op::kRecv, kSmall, 3, 1, 5);
  EXPECT_EQ(begin(letter), Begun::kOver);
  EXPECT_EQ(ended_.sequence, 1u);
  EXPECT_EQ(ended_.source, 1);
  EXPECT_EQ(letter.verify(), "");
  EXPECT_TRUE(port_.arrived.empty());
  EXPECT_FALSE(lane_->busy());
  arrive(4, 5);
  expect_now(plain(Op::kRecv, kSmall, 4, 1, 5));  // the lane is free
}

TEST_F(MessageBegin, AMessageWithoutElementsIsOverAtOnce) {
  arrive(3, 5, 0, 0, 0);
  EXPECT_EQ(begin(plain(Op::kRecv, 0, 3, 1, 5)), Begun::kOver);
  EXPECT_EQ(begin(plain(Op::kSend, 0, 3, 1, 5)), Begun::kOver);
  EXPECT_EQ(sent(), "e");
}

TEST_F(MessageBegin, WhatIsNotHereBecomesATask) {
  const Letter letter = plain(Op::kRecv, kSmall, 3, 1, 5);
  ASSERT_EQ(begin(letter), Begun::kNot);
  const auto task = go_on(letter, Begun::kNot);
  EXPECT_FALSE(task->done());
  EXPECT_TRUE(lane_->busy());
  arrive(3, 5);
  lane_->drive();
  EXPECT_TRUE(task->done());
  EXPECT_EQ(letter.verify(), "");
  EXPECT_FALSE(lane_->busy());
}

TEST_F(MessageBegin, AMessageForAnotherTagWaitsForItsOwnRecv) {
  arrive(7, 70);
  arrive(5, 50);
  EXPECT_EQ(begin(plain(Op::kRecv, kSmall, 0, 1, 50)), Begun::kNot);
  const Letter second = plain(Op::kRecv, kSmall, 5, 1, 50);
  const auto task = go_on(second, Begun::kNot);
  ASSERT_TRUE(task->done());
  EXPECT_EQ(second.verify(), "");
  expect_now(plain(Op::kRecv, kSmall, 7, 1, 70));
}

TEST_F(MessageBegin, WhatWasSetAsideComesBeforeWhatArrives) {
  arrive(1, 70);
  arrive(5, 50);
  arrive(2, 70);
  expect_now(plain(Op::kRecv, kSmall, 5, 1, 50));
  expect_now(plain(Op::kRecv, kSmall, 1, 1, 70));
  expect_now(plain(Op::kRecv, kSmall, 2, 1, 70));
}

TEST_F(MessageBegin, WhatIsBeingSetAsideComesBeforeWhatArrives) {
  arrive(1, 70, kPieces, 0, kPiece);
  std::uint64_t bytes = 0;
  const Letter letter = plain(Op::kRecv, kPieces, 1, 1, 70);
  EXPECT_EQ(lane_->probe(letter.call(), bytes), -1);  // not all of it is here
  arrive(1, 70, kPieces, kPiece, kPieces - kPiece);
  arrive(2, 70, kPieces, 0, kPieces);
  expect_now(letter);
  expect_now(plain(Op::kRecv, kPieces, 2, 1, 70));
}

TEST_F(MessageBegin, ARecvWithAPartOfItsMessageGoesOnAsATask) {
  arrive(1, 70, kPieces, 0, kPiece);
  const Letter letter = plain(Op::kRecv, kPieces, 1, 1, 70);
  ASSERT_EQ(begin(letter), Begun::kUnderWay);
  const auto task = go_on(letter, Begun::kUnderWay);
  EXPECT_FALSE(task->done());
  EXPECT_TRUE(lane_->busy());
  EXPECT_EQ(task->operation().sequence, 1u);
  arrive(1, 70, kPieces, kPiece, kPieces - kPiece);
  lane_->drive();
  ASSERT_TRUE(task->done());
  EXPECT_EQ(task->source(), 1);
  EXPECT_EQ(letter.verify(), "");
  EXPECT_FALSE(lane_->busy());
  EXPECT_EQ(task.use_count(), 1);
}

TEST_F(MessageBegin, PiecesThatAreAllHereAreOverAtOnce) {
  arrive(1, 70, kPieces, 0, kPiece);
  arrive(1, 70, kPieces, kPiece, kPieces - kPiece);
  const Letter letter = plain(Op::kRecv, kPieces, 1, 1, 70);
  EXPECT_EQ(begin(letter), Begun::kOver);
  EXPECT_EQ(letter.verify(), "");
}

TEST_F(MessageBegin, AMessageOfAnotherSizeOrTypeIsNotTaken) {
  arrive(3, 5);
  EXPECT_EQ(begin(plain(Op::kRecv, kSmall + 1, 3, 1, 5)), Begun::kNot);
  lane_ = std::make_unique<MessageLane>(*group_, &port_, 0, 2);
  EXPECT_EQ(begin({Op::kRecv, DType::kFloat32, kSmall, Shape::kPlain, 3, 1, 5}), Begun::kNot);
  EXPECT_EQ(port_.arrived.size(), 1u);
}

TEST_F(MessageBegin, AMessageOfATypeThatThereIsNotIsAMismatch) {
  arrive(3, 5);
  port_.arrived.back().header.dtype = static_cast<DType>(250);
  const Letter letter = plain(Op::kRecv, kSmall, 3, 1, 5);
  go_on(letter, begin(letter));
  EXPECT_EQ(group_->health().code, Code::kMismatch);
  EXPECT_NE(group_->health().message().find("rank 41 sent something this version does not know"), std::string::npos)
      << group_->health().message();
  lane_->close(group_->health());
}

TEST_F(MessageBegin, APieceThatCannotBeRightIsNotTaken) {
  arrive(1, 70, kPieces, 0, kPiece);
  arrive(1, 70, kPieces, kPiece, kPiece);  // beyond the end
  EXPECT_EQ(begin(plain(Op::kRecv, kPieces, 1, 1, 70)), Begun::kUnderWay);
  EXPECT_EQ(port_.arrived.size(), 1u);

  lane_ = std::make_unique<MessageLane>(*group_, &port_, 0, 2);
  port_.arrived.clear();
  arrive(1, 70, kPieces, 0, kPiece);
  arrive(1, 70, kPieces, 0, kPieces - kPiece);  // the beginning once more
  EXPECT_EQ(begin(plain(Op::kRecv, kPieces, 1, 1, 70)), Begun::kUnderWay);
  EXPECT_EQ(port_.arrived.size(), 1u);
}

TEST_F(MessageBegin, WhoTakesAnybodysMessagesOrAParcelNeedsATask) {
  arrive(3, 5, 0, 0, 0);
  EXPECT_EQ(begin(plain(Op::kRecv, 0, 3, kAnySource, 5)), Begun::kNot);
  lane_ = std::make_unique<MessageLane>(*group_, &port_, 0, 2);
  Call parcel;
  parcel.op = Op::kRecv;
  parcel.peer = 1;
  parcel.tag = 5;
  parcel.dtype = DType::kInt32;
  parcel.parcel = true;
  EXPECT_EQ(lane_->begin(parcel, 1, ended_), Begun::kNot);
  EXPECT_EQ(port_.arrived.size(), 1u);
}

TEST_F(MessageBegin, ACallBehindAnotherWaitsForItsTurn) {
  const Letter first = plain(Op::kRecv, kSmall, 1, 1, 5);
  const auto task = go_on(first, begin(first));
  arrive(1, 5);
  arrive(2, 5);
  const Letter second = plain(Op::kRecv, kSmall, 2, 1, 5);
  ASSERT_EQ(begin(second), Begun::kNot);
  const auto behind = go_on(second, Begun::kNot);
  lane_->drive();
  EXPECT_TRUE(task->done());
  EXPECT_TRUE(behind->done());
  EXPECT_EQ(first.verify(), "");
  EXPECT_EQ(second.verify(), "");
}

// This process may have been stopped since its last look, while the other went on.
TEST_F(MessageBegin, WhatCameBeforeTheDeadlineWasNotAwaitedInVain) {
  const Letter letter = plain(Op::kRecv, kSmall, 3, 1, 5);
  const auto task = std::make_shared<Task>(letter.call(), Nanos{1});
  lane_->post(*task, 1, task);
  arrive(3, 5);
  lane_->inspect();
  ASSERT_TRUE(task->done());
  EXPECT_TRUE(task->status().ok()) << task->status().message();
  EXPECT_TRUE(group_->health().ok()) << group_->health().message();
  EXPECT_EQ(letter.verify(), "");
}

}  // namespace
}  // namespace customccl::test
