#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engines/members_of_one_process.h"

// What ranks show one another instead of staging it, step by step: two engines that one thread drives.
// READ_PEERS suites run only where small_settings_test.cpp says so: they need a setting.

namespace customccl::test {
namespace {

constexpr int kRanks = TwoEngines::kRanks;
constexpr std::size_t kLarge = 600'000;  // elements; float32: shown if it lies in the arena, and in one chunk

Trial shown_trial(Op op, Shape shape = Shape::kShared, std::size_t count = kLarge) {
  Trial trial = even_trial(op, kRanks, DType::kFloat32, count);
  trial.input_shape = shape;
  trial.joined = true;
  return trial;
}

// Rank 0 has read all of rank 1 and has only to wait for it; rank 1 has read nothing yet.
void lead(Both& both) {
  EXPECT_EQ(both.start(0), Step::kMoved);
  EXPECT_EQ(both.start(1), Step::kMoved);
  EXPECT_EQ(both.advance(0), Step::kMoved);
  EXPECT_EQ(both.advance(0), Step::kWaiting);
}

TEST(ShownTensors, AreKeptUntilThePeerHasReadThem) {
  TwoEngines engines;
  Both both(engines, shown_trial(Op::kAllGather));
  lead(both);
  EXPECT_EQ(both.advance(1), Step::kMoved);
  EXPECT_EQ(both.advance(1), Step::kDone);
  EXPECT_EQ(both.advance(0), Step::kDone);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(both.part(rank).verify(), "");
}

// Rank 0 gives up while it waits in the last turn, which it has published. Its caller may write over what rank 1 is yet to read.
void give_up(const std::function<void(TwoEngines&)>& giving_up, const std::string& sentence, Shape shape,
             std::size_t count) {
  TwoEngines engines;
  Both both(engines, shown_trial(Op::kAllGather, shape, count));
  lead(both);
  giving_up(engines);
  EXPECT_EQ(both.advance(1), Step::kMoved);
  EXPECT_EQ(both.advance(1), Step::kFailed);
  EXPECT_NE(both.failure.message().find(sentence), std::string::npos) << both.failure.message();
  EXPECT_EQ(both.failure.culprit, Rank::kGlobal);
}

void time_out_first(TwoEngines& engines) { engines[0].fail({Code::kTimeout, "the timeout passed", Rank::kGlobal}); }
void destroy(TwoEngines& engines) {
  engines[0].abandon();
  engines.close(0);
}

TEST(ShownTensors, OfARankThatTimesOutInTheLastTurnAreNotTrusted) {
  give_up(time_out_first, "gave the group up: the timeout passed", Shape::kShared, kLarge);
}

TEST(ShownTensors, OfARankThatDestroysTheGroupWithinTheOperationAreNotTrusted) {
  give_up(destroy, "destroyed the group", Shape::kShared, kLarge);
}

TEST(DISABLED_ReadPeers, AreNotTrustedEither) {
  give_up(time_out_first, "gave the group up: the timeout passed", Shape::kPlain, 100);
  give_up(destroy, "destroyed the group", Shape::kPlain, 100);
}

TEST(DISABLED_ReadPeers, SendNothingThroughStaging) {
  for (const Op op : {Op::kAllGather, Op::kAllToAll}) {
    TwoEngines engines;
    Both both(engines, shown_trial(op, Shape::kPlain, 100));
    lead(both);
    EXPECT_EQ(both.advance(1), Step::kMoved);
    EXPECT_EQ(both.advance(1), Step::kDone);
    EXPECT_EQ(both.advance(0), Step::kDone);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(both.part(rank).verify(), "");
      EXPECT_TRUE(both.of(rank).reads_shown);
    }
  }
}

// What arrives would replace what is yet to be read.
TEST(DISABLED_ReadPeers, StageAnAllToAllInPlace) {
  TwoEngines engines;
  Trial trial = shown_trial(Op::kAllToAll, Shape::kPlain, 100);
  trial.in_place = true;
  Both both(engines, trial);
  EXPECT_EQ(both.start(0), Step::kMoved);
  EXPECT_EQ(both.start(1), Step::kMoved);
  EXPECT_EQ(both.advance(0), Step::kDone);
  EXPECT_EQ(both.advance(1), Step::kDone);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(both.part(rank).verify(), "");
}

TEST(DISABLED_ReadPeers, SayWhoseMemoryCouldNotBeRead) {
  constexpr std::size_t kBytes = 3 * 4096;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  TwoEngines engines;
  Both both(engines, shown_trial(Op::kAllGather, Shape::kPlain, kBytes / sizeof(float)));
  Call call = both.part(0).call();
  const View input{static_cast<std::byte*>(memory), nullptr, 0, kBytes / sizeof(float)};
  call.inputs = {&input, 1};
  both.of(0).call = &call;
  EXPECT_EQ(both.start(0), Step::kMoved);
  EXPECT_EQ(both.start(1), Step::kMoved);
  ASSERT_EQ(::munmap(static_cast<char*>(memory) + 4096, 4096), 0);  // in the middle
  EXPECT_EQ(both.advance(1), Step::kFailed);
  EXPECT_NE(both.failure.message().find("rank 40 "), std::string::npos) << both.failure.message();
  EXPECT_NE(both.failure.message().find("CUSTOMCCL_READ_PEERS=off"), std::string::npos) << both.failure.message();
  EXPECT_EQ(both.failure.culprit, Rank::kGlobal);
  ASSERT_EQ(::munmap(memory, kBytes), 0);
}

void expect_staged(Shape shape) {
  TwoEngines engines;
  Both both(engines, shown_trial(Op::kAllGather, shape, 1000));
  EXPECT_EQ(both.start(0), Step::kMoved);
  EXPECT_EQ(both.start(1), Step::kMoved);
  EXPECT_EQ(both.advance(0), Step::kDone);
  EXPECT_EQ(both.advance(1), Step::kDone);
  EXPECT_FALSE(both.of(0).reads_shown);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(both.part(rank).verify(), "");
}

TEST(DISABLED_ReadPeers, StageWhatDoesNotLieInOneRun) { expect_staged(Shape::kGaps); }
TEST(DISABLED_UnreadPeers, AreStaged) { expect_staged(Shape::kPlain); }

}  // namespace
}  // namespace customccl::test
