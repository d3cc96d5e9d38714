#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "engines/shm/fingerprint.h"
#include "engines/shm/member_record.h"
#include "engines/shm/pair_counts.h"
#include "engines/shm/store_policy.h"
#include "support/trial.h"

// What ranks compare and choose by themselves: fingerprints, pair counts, records, the store policy.

namespace customccl::test {
namespace {

using shm::PairCounts;
using shm::StorePolicy;

std::uint64_t fingerprint_of(const Trial& trial, int rank, std::uint64_t sequence = 1) {
  const Part part(trial, rank);
  Operation op;
  op.call = &part.call();
  op.sequence = sequence;
  PairCounts pairs;
  if (shm::is_personal(trial.op)) pairs.set_own(part.call(), rank, trial.size);
  return shm::fingerprint(op, pairs);
}

TEST(Fingerprint, IsTheSameOnEveryRankForTheSameCall) {
  for (int op = 0; op <= static_cast<int>(Op::kBarrier); ++op) {
    Trial trial = even_trial(static_cast<Op>(op), 4, DType::kInt32, 10);
    trial.root = 2;
    for (int rank = 1; rank < 4; ++rank)
      EXPECT_EQ(fingerprint_of(trial, rank), fingerprint_of(trial, 0)) << trial.describe();
  }
}

TEST(Fingerprint, DiffersForEveryDifferenceThatMatters) {
  std::set<std::uint64_t> seen;
  int made = 0;
  for (int op = 0; op < static_cast<int>(Op::kBarrier); ++op) {
    for (const DType dtype : {DType::kInt32, DType::kFloat32}) {
      for (const std::size_t count : {1, 2, 1000}) {
        for (const std::uint64_t sequence : {1, 2}) {
          seen.insert(fingerprint_of(even_trial(static_cast<Op>(op), 4, dtype, count), 0, sequence));
          ++made;
        }
      }
    }
  }
  Trial reduce = even_trial(Op::kReduce, 4, DType::kInt32, 1);
  reduce.root = 3;
  seen.insert(fingerprint_of(reduce, 0));
  reduce.reduce_op = ReduceOp::kMax;
  seen.insert(fingerprint_of(reduce, 0));
  Trial uneven = even_trial(Op::kAllGather, 4, DType::kInt32, 1);
  uneven.counts[3] = 2;
  seen.insert(fingerprint_of(uneven, 0));
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(made + 3));
}

TEST(Fingerprint, IgnoresRootsAndReduceOpsWhereTheyMeanNothing) {
  Trial trial = even_trial(Op::kAllGather, 2, DType::kInt32, 5);
  const std::uint64_t plain = fingerprint_of(trial, 0);
  trial.root = 1;
  trial.reduce_op = ReduceOp::kMin;
  EXPECT_EQ(fingerprint_of(trial, 0), plain);
}

TEST(PairCounts, AreUniformOnlyWhenOneNumberSaysItAll) {
  for (const Op op : {Op::kAllToAll, Op::kGather, Op::kScatter}) {
    Trial trial = even_trial(op, 3, DType::kInt32, 5);
    const Part even(trial, 0);
    PairCounts pairs;
    pairs.set_own(even.call(), 0, 3);
    EXPECT_TRUE(pairs.uniform());
    EXPECT_EQ(pairs.uniform_count(), 5u);
    trial.counts[1] = 6;
    const Part uneven(trial, 0);
    pairs.set_own(uneven.call(), 0, 3);
    EXPECT_FALSE(pairs.uniform());
  }
}

TEST(PairCounts, KnowWhoSendsWhatInARootedOperation) {
  Trial trial = even_trial(Op::kGather, 3, DType::kInt32, 5);
  trial.root = 1;
  const Part part(trial, 0);
  PairCounts pairs;
  pairs.set_own(part.call(), 0, 3);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) EXPECT_EQ(pairs.sent(from, to), to == 1 ? 5u : 0u);
  }
}

// Runs `times` operations of which those written by `faster` take a third of the others; returns how many it wrote.
int operations(StorePolicy& policy, int times, Store faster, std::size_t bytes = 4 << 20, bool teaches = true) {
  int written = 0;
  for (int i = 0; i < times; ++i) {
    bool measure = false;
    const Store store = policy.choose(bytes, teaches, measure);
    written += store == faster ? 1 : 0;
    if (measure) policy.observe(store, bytes, teaches, std::chrono::microseconds(store == faster ? 100 : 300));
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

TEST(StorePolicy, FindsAKindThatIsSlowRightAfterTheOther) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    const Store other = StorePolicy::other_than(faster);
    StorePolicy policy;
    operations(policy, 1000, other, 1 << 20);
    int row = 0, written = 0;
    for (int i = 0; i < 400; ++i) {
      bool measure = false;
      const Store store = policy.choose(1 << 20, true, measure);
      row = store == faster ? row + 1 : 0;
      written += row > 0 ? 1 : 0;
      // The slower one: 150. The faster one: 210, then 60.
      const int took = store == other ? 150 : row == 1 ? 210 : 60;
      if (measure) policy.observe(store, 1 << 20, true, std::chrono::microseconds(took));
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

TEST(StorePolicy, IsNotTurnedByWhatTakesAHundredTimesAsLong) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    StorePolicy policy;
    operations(policy, 200, faster, 4096);
    for (int disturbed = 0; disturbed < 20; ++disturbed) {
      bool measure = false;
      const Store store = policy.choose(4096, true, measure);
      if (measure) policy.observe(store, 4096, true, std::chrono::milliseconds(40));
      EXPECT_GE(operations(policy, 100, faster, 4096), 98);
    }
  }
}

TEST(StorePolicy, DoesForARootWhatTheOthersLearnt) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    const Store other = StorePolicy::other_than(faster);
    StorePolicy policy;
    // Nothing is known: it learns by itself.
    EXPECT_GE(operations(policy, 100, other, 8192, false), 90);
    EXPECT_GE(operations(policy, 100, faster, 8192), 90);
    EXPECT_GE(operations(policy, 100, other, 4 << 20), 90);
    // Its own times are no argument now, and sizes nobody has taught do what the nearest ones do.
    for (const std::size_t bytes : {2048, 8192, 65536}) EXPECT_EQ(operations(policy, 100, faster, bytes, false), 100);
  }
}

TEST(StorePolicy, LearnsForLargeDataOfARootFromItsOwnTimes) {
  for (const Store faster : {Store::kPlain, Store::kStreaming}) {
    const Store other = StorePolicy::other_than(faster);
    StorePolicy policy;
    EXPECT_GE(operations(policy, 100, other, 1 << 20), 85);
    EXPECT_GE(operations(policy, 100, faster, 1 << 20, false), 85);
    // The others' knowledge stays theirs.
    EXPECT_GE(operations(policy, 20, other, 1 << 20), 20);
    // The cores have moved, while nothing but rooted operations ran.
    EXPECT_GE(operations(policy, 20, other, 1 << 20, false), 16);
  }
}

TEST(StorePolicy, FirstTriesEachKindOfLargeDataSeveralTimesInARow) {
  StorePolicy policy;
  std::vector<Store> stores;
  int row = 0;
  for (int i = 0; i < 60; ++i) {
    bool measure = false;
    stores.push_back(policy.choose(1 << 20, true, measure));
    EXPECT_TRUE(measure);
    row = stores.back() == Store::kPlain ? row + 1 : 0;
    // Non-temporal ones 100; plain ones 120 until their places come round.
    const int took = row == 0 ? 100 : row < 9 ? 120 : 60;
    policy.observe(stores.back(), 1 << 20, true, std::chrono::microseconds(took));
  }
  EXPECT_EQ(std::count(stores.begin(), stores.begin() + 12, Store::kPlain), 12);
  EXPECT_EQ(std::count(stores.begin() + 12, stores.begin() + 16, Store::kStreaming), 4);
  EXPECT_EQ(std::count(stores.begin() + 16, stores.end(), Store::kPlain), 44);
}

TEST(StorePolicy, RepeatsATrialThatWasToSettleADoubtAndSaysNothing) {
  for (const std::size_t bytes : {4096, 4 << 20}) {
    StorePolicy policy;
    operations(policy, 1000, Store::kPlain, bytes);
    // Plain stores have become slow; every other trial of the others is disturbed.
    int disturbed = 0;
    for (int i = 0; i < 200; ++i) {
      bool measure = false;
      const Store store = policy.choose(bytes, true, measure);
      if (!measure) continue;
      if (store == Store::kStreaming && disturbed < 3) {
        policy.forget(store, bytes, true);
        ++disturbed;
      } else {
        policy.observe(store, bytes, true, std::chrono::microseconds(store == Store::kPlain ? 300 : 100));
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
    EXPECT_EQ(operations(policy, 4, faster, 16 << 20, false), 4);
    // One try shows that there is no hope.
    EXPECT_EQ(operations(policy, 20, faster, 64 << 20), 19);
  }
}

TEST(StorePolicy, RepeatsFirstTrialsWhoseTimesSayNothing) {
  for (const std::size_t bytes : {4096, 1 << 20}) {
    StorePolicy policy;
    for (int i = 0; i < 100; ++i) {
      bool measure = false;
      EXPECT_EQ(policy.choose(bytes, true, measure), Store::kPlain);
      EXPECT_TRUE(measure);
      policy.forget(Store::kPlain, bytes, true);
    }
    const int first = bytes == 4096 ? 8 : 16;
    const int streaming = operations(policy, first, Store::kStreaming, bytes);
    EXPECT_EQ(streaming, 4);
    EXPECT_GE(operations(policy, 100, Store::kStreaming, bytes), 98);
  }
}

TEST(StorePolicy, WritesLittlePlainlyAndMeasuresNone) {
  StorePolicy policy;
  bool measure = true;
  EXPECT_EQ(policy.choose(1000, true, measure), Store::kPlain);
  EXPECT_FALSE(measure);
}

TEST(MemberRecord, TravelsAsTextUnchanged) {
  shm::MemberRecord record;
  record.arena = {{1, 2}, {3, 4}, 5, 6, "boot-id", "host.name"};
  record.block_offset = 4096;
  record.presence_offset = 8;
  record.presence = ~std::uint64_t{0};
  record.slot_bytes = 7;
  record.ring_bytes = 8;
  record.size = 9;
  record.cpus.set(0).set(5);
  shm::MemberRecord back;
  ASSERT_TRUE(shm::MemberRecord::from_text(record.to_text(), back).ok());
  EXPECT_EQ(back.to_text(), record.to_text());
  EXPECT_EQ(back.cpus, record.cpus);
}

TEST(MemberRecord, OfAnotherVersionOrCutOffIsRefusedWithAHint) {
  shm::MemberRecord record;
  record.arena.boot_id = "boot";
  record.arena.host = "host";
  record.cpus.set(0);
  const std::string text = record.to_text();
  shm::MemberRecord out;
  for (std::size_t length = 0; length < text.size(); length += 3) {
    const Status status = shm::MemberRecord::from_text(text.substr(0, length), out);
    EXPECT_EQ(status.code, Code::kUnreachable) << text.substr(0, length);
  }
  EXPECT_EQ(shm::MemberRecord::from_text("customccl-0" + text.substr(11), out).code, Code::kUnreachable);
}

}  // namespace
}  // namespace customccl::test
