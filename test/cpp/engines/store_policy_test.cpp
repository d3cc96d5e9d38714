#include "engines/shm/store_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

// How a rank learns by which kind of store it writes its staging.

namespace customccl::test {
namespace {

using shm::StorePolicy;
using Kind = StorePolicy::Kind;

constexpr Kind kMutual{Op::kAllReduce, true};
constexpr Kind kRooted{Op::kBroadcast, false};

// Runs `times` operations of which those written by `faster` take a third of the others; returns how many it wrote.
int operations(StorePolicy& policy, int times, Store faster, std::size_t bytes = 4 << 20, Kind kind = kMutual) {
  int written = 0;
  for (int i = 0; i < times; ++i) {
    bool measure = false;
    const Store store = policy.choose(bytes, kind, measure);
    written += store == faster ? 1 : 0;
    if (measure) policy.observe(store, bytes, kind, std::chrono::microseconds(store == faster ? 100 : 300));
  }
  return written;
}

// Microseconds that an operation takes by each kind.
struct Costs {
  int plain;
  int streaming;
  int of(Store store) const { return store == Store::kPlain ? plain : streaming; }
};

int plainly_written(StorePolicy& policy, int times, std::size_t bytes, const std::function<Costs(int)>& costs) {
  int written = 0;
  for (int i = 0; i < times; ++i) {
    bool measure = false;
    const Store store = policy.choose(bytes, kMutual, measure);
    written += store == Store::kPlain ? 1 : 0;
    if (measure) policy.observe(store, bytes, kMutual, std::chrono::microseconds(costs(i).of(store)));
  }
  return written;
}

TEST(StorePolicy, TriesBothThenKeepsTheFasterAndLooksAgainNowAndThen) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    StorePolicy policy;
    const int written = operations(policy, 1000, faster);
    EXPECT_GT(written, 950);
    EXPECT_LT(written, 1000);
  }
}

TEST(StorePolicy, FollowsWhenTheOtherBecomesFaster) {
  StorePolicy policy;
  operations(policy, 1000, Store::kPlain);
  operations(policy, 3000, Store::kStreaming);
  EXPECT_GT(operations(policy, 100, Store::kStreaming), 90);
}

TEST(StorePolicy, FollowsWithinAFewOperationsThatAreLarge) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    StorePolicy policy;
    operations(policy, 1000, faster);
    const Store other = StorePolicy::other_than(faster);
    EXPECT_GE(operations(policy, 10, other), 6);
    EXPECT_GE(operations(policy, 100, other), 98);
  }
}

// 64 MiB between cores that come together, and part again.
TEST(StorePolicy, DoubtsAKindThatIsSomewhatSlowerThanItWas) {
  const auto far = [](int) { return Costs{35000, 7300}; };
  const auto near = [](int) { return Costs{7000, 11500}; };
  StorePolicy policy;
  EXPECT_LT(plainly_written(policy, 200, 64 << 20, far), 10);
  for (int times = 0; times < 5; ++times) {
    EXPECT_GE(plainly_written(policy, 20, 64 << 20, near), 12);  // four may be the tries of every 127th
    EXPECT_LE(plainly_written(policy, 20, 64 << 20, far), 4);
  }
}

TEST(StorePolicy, DoesNotTryAgainAndAgainForATimeThatWasBetterThanAllOthers) {
  const auto lucky = [](int number) { return Costs{35000, number % 10 == 0 ? 4300 : 7300}; };
  StorePolicy policy;
  plainly_written(policy, 200, 64 << 20, lucky);
  EXPECT_LE(plainly_written(policy, 640, 64 << 20, lucky), 20);
}

TEST(StorePolicy, FindsAKindThatIsSlowRightAfterTheOther) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    const Store other = StorePolicy::other_than(faster);
    StorePolicy policy;
    operations(policy, 1000, other, 1 << 20);
    int row = 0, written = 0;
    for (int i = 0; i < 400; ++i) {
      bool measure = false;
      const Store store = policy.choose(1 << 20, kMutual, measure);
      row = store == faster ? row + 1 : 0;
      written += row > 0 ? 1 : 0;
      // The slower one: 150. The faster one: 210, then 60.
      const int took = store == other ? 150 : row == 1 ? 210 : 60;
      if (measure) policy.observe(store, 1 << 20, kMutual, std::chrono::microseconds(took));
    }
    EXPECT_GT(written, 360);
  }
}

TEST(StorePolicy, LearnsEachSizeClassByItself) {
  StorePolicy policy;
  for (int i = 0; i < 200; ++i) {
    operations(policy, 1, Store::kPlain, 64 << 10);
    operations(policy, 1, Store::kStreaming, 8 << 20);
  }
  EXPECT_GT(operations(policy, 100, Store::kPlain, 64 << 10), 90);
  EXPECT_GT(operations(policy, 100, Store::kStreaming, 8 << 20), 90);
}

// Cores that come together make plain stores faster, and non-temporal ones no slower: nothing but a trial shows it.
TEST(StorePolicy, AllSizesLookAgainWhenOneHasFoundThatTheOtherKindIsFaster) {
  const auto run = [](StorePolicy& policy, int times, std::size_t bytes, int plain) {
    return plainly_written(policy, times, bytes, [plain](int) { return Costs{plain, 110}; });
  };
  StorePolicy policy;
  for (const std::size_t bytes : {4096, 64 << 10, 64 << 20}) run(policy, 900, bytes, 300);
  EXPECT_EQ(run(policy, 4, 64 << 20, 70), 0);
  run(policy, 256, 64 << 10, 70);
  EXPECT_EQ(run(policy, 20, 64 << 20, 70), 20);
  EXPECT_EQ(run(policy, 20, 4096, 70), 20);
  // And no more than once: here the other kind stays slower.
  run(policy, 1000, 1 << 20, 300);
  EXPECT_LE(run(policy, 100, 1 << 20, 300), 1);
}

TEST(StorePolicy, IsNotTurnedByWhatTakesAHundredTimesAsLong) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    StorePolicy policy;
    operations(policy, 200, faster, 4096);
    for (int disturbed = 0; disturbed < 20; ++disturbed) {
      bool measure = false;
      const Store store = policy.choose(4096, kMutual, measure);
      if (measure) policy.observe(store, 4096, kMutual, std::chrono::milliseconds(40));
      EXPECT_GE(operations(policy, 100, faster, 4096), 98);
    }
  }
}

TEST(StorePolicy, LearnsApartWhereNotAllWriteAsMuchAsTheyRead) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    const Store other = StorePolicy::other_than(faster);
    for (const std::size_t bytes : {8192, 4 << 20}) {
      StorePolicy policy;
      EXPECT_GE(operations(policy, 100, other, bytes), 90);
      EXPECT_GE(operations(policy, 100, faster, bytes, kRooted), 90);
      EXPECT_GE(operations(policy, 20, other, bytes), 19);
      // The cores have moved, while nothing but rooted operations ran.
      EXPECT_GE(operations(policy, 1000, other, bytes, kRooted), 800);
    }
  }
}

// By turns: their times compare with nothing.
TEST(StorePolicy, LearnsEachOperationApart) {
  constexpr Kind kOther{Op::kAllGather, true};
  for (const std::size_t bytes : {8192, 4 << 20}) {
    StorePolicy policy;
    int written = 0, written_other = 0;
    for (int i = 0; i < 400; ++i) {
      for (const Kind kind : {kMutual, kOther}) {
        bool measure = false;
        const Store store = policy.choose(bytes, kind, measure);
        const bool plain = store == Store::kPlain;
        const int took = kind.op == Op::kAllReduce ? (plain ? 100 : 200) : (plain ? 1000 : 500);
        if (measure) policy.observe(store, bytes, kind, std::chrono::microseconds(took));
        if (i < 200) continue;
        (kind.op == Op::kAllReduce ? written : written_other) += plain ? 1 : 0;
      }
    }
    EXPECT_GE(written, 180);
    EXPECT_LE(written_other, 20);
  }
}

// What another size, or operations of the other sort, have found.
TEST(StorePolicy, FirstTriesEachKindOfLargeDataSeveralTimesInARow) {
  StorePolicy policy;
  std::vector<Store> stores;
  int row = 0;
  for (int i = 0; i < 60; ++i) {
    bool measure = false;
    stores.push_back(policy.choose(1 << 20, kMutual, measure));
    EXPECT_TRUE(measure);
    row = stores.back() == Store::kPlain ? row + 1 : 0;
    // Non-temporal ones 100; plain ones 120 until their places come round.
    const int took = row == 0 ? 100 : row < 9 ? 120 : 60;
    policy.observe(stores.back(), 1 << 20, kMutual, std::chrono::microseconds(took));
  }
  EXPECT_EQ(std::count(stores.begin(), stores.begin() + 12, Store::kPlain), 12);
  EXPECT_EQ(std::count(stores.begin() + 12, stores.begin() + 16, Store::kStreaming), 4);
  EXPECT_EQ(std::count(stores.begin() + 16, stores.end(), Store::kPlain), 44);
}

// The first one after the other kind meets no line that it knows.
TEST(StorePolicy, JudgesAKindForLittleDataByTheLastOfARow) {
  StorePolicy policy;
  operations(policy, 100, Store::kStreaming, 16 << 10);
  int row = 0, written = 0;
  for (int i = 0; i < 400; ++i) {
    bool measure = false;
    const Store store = policy.choose(16 << 10, kMutual, measure);
    row = store == Store::kPlain ? row + 1 : 0;
    written += row > 0 ? 1 : 0;
    const int took = row == 0 ? 100 : row < 6 ? 190 : 60;
    if (measure) policy.observe(store, 16 << 10, kMutual, std::chrono::microseconds(took));
  }
  EXPECT_GT(written, 300);
}

TEST(StorePolicy, RepeatsATrialThatWasToSettleADoubtAndSaysNothing) {
  for (const std::size_t bytes : {4096, 4 << 20}) {
    StorePolicy policy;
    operations(policy, 1000, Store::kPlain, bytes);
    // Plain stores have become slow; the first three trials of the others are disturbed.
    int disturbed = 0;
    for (int i = 0; i < 200; ++i) {
      bool measure = false;
      const Store store = policy.choose(bytes, kMutual, measure);
      if (!measure) continue;
      if (store == Store::kStreaming && disturbed < 3) {
        policy.forget(store, bytes, kMutual);
        ++disturbed;
      } else {
        policy.observe(store, bytes, kMutual, std::chrono::microseconds(store == Store::kPlain ? 300 : 100));
      }
    }
    EXPECT_EQ(disturbed, 3);
    EXPECT_GE(operations(policy, 100, Store::kStreaming, bytes), 98);
  }
}

TEST(StorePolicy, BeginsWithWhatTheNearestSizeDoes) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    StorePolicy policy;
    operations(policy, 100, faster, 1 << 20);
    EXPECT_EQ(operations(policy, 4, faster, 64 << 20), 4);
    EXPECT_EQ(operations(policy, 4, faster, 16 << 20, kRooted), 4);
    // One try shows that there is no hope.
    EXPECT_EQ(operations(policy, 20, faster, 64 << 20), 19);
  }
}

TEST(StorePolicy, RepeatsFirstTrialsWhoseTimesSayNothing) {
  for (const std::size_t bytes : {4096, 1 << 20}) {
    StorePolicy policy;
    for (int i = 0; i < 100; ++i) {
      bool measure = false;
      EXPECT_EQ(policy.choose(bytes, kMutual, measure), Store::kPlain);
      EXPECT_TRUE(measure);
      policy.forget(Store::kPlain, bytes, kMutual);
    }
    const int plain = bytes == 4096 ? 6 : 12;
    EXPECT_EQ(operations(policy, plain, Store::kStreaming, bytes), 0);
    EXPECT_EQ(operations(policy, 4, Store::kStreaming, bytes), 4);
    EXPECT_GE(operations(policy, 100, Store::kStreaming, bytes), 98);
  }
}

TEST(StorePolicy, WritesLittlePlainlyAndMeasuresNone) {
  StorePolicy policy;
  bool measure = true;
  EXPECT_EQ(policy.choose(1000, kMutual, measure), Store::kPlain);
  EXPECT_FALSE(measure);
}

}  // namespace
}  // namespace customccl::test
