#include <gtest/gtest.h>

#include <set>

#include "engines/shm/fingerprint.h"
#include "engines/shm/member_record.h"
#include "engines/shm/pair_counts.h"
#include "support/trial.h"

// What ranks compare and choose by themselves: fingerprints, pair counts, records.

namespace customccl::test {
namespace {

using shm::PairCounts;

std::uint64_t fingerprint_of(const Trial& trial, int rank, std::uint64_t sequence = 1) {
  const Part part(trial, rank);
  Operation op;
  op.call = &part.call();
  op.sequence = sequence;
  PairCounts pairs;
  if (shm::is_personal(trial.op)) pairs.set_own(part.call(), rank, trial.size, 0);
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
    pairs.set_own(even.call(), 0, 3, 0);
    EXPECT_TRUE(pairs.uniform());
    EXPECT_EQ(pairs.uniform_count(), 5u);
    trial.counts[1] = 6;
    const Part uneven(trial, 0);
    pairs.set_own(uneven.call(), 0, 3, 0);
    EXPECT_FALSE(pairs.uniform());
  }
}

TEST(PairCounts, KnowWhoSendsWhatInARootedOperation) {
  Trial trial = even_trial(Op::kGather, 3, DType::kInt32, 5);
  trial.root = 1;
  const Part part(trial, 0);
  PairCounts pairs;
  pairs.set_own(part.call(), 0, 3, 0);
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) EXPECT_EQ(pairs.sent(from, to), to == 1 ? 5u : 0u);
  }
}

TEST(MemberRecord, TravelsAsTextUnchanged) {
  shm::MemberRecord record;
  record.arena = {{1, 2}, {3, 4}, 5, 6, 7, "boot-id", "host.name"};
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

TEST(MemberRecord, OfARankThatGaveUpSaysWhy) {
  shm::MemberRecord out;
  const std::string text = shm::MemberRecord::failure({Code::kPeerDied, "global rank 7: it has ended", 7});
  const Status status = shm::MemberRecord::from_text(text, out);
  EXPECT_EQ(status.code, Code::kPeerDied);
  EXPECT_EQ(status.culprit, 7);
  EXPECT_EQ(status.message(), "it gave up: global rank 7: it has ended");
  for (const char* odd : {"customccl-failed", "customccl-failed 0 1 all is well", "customccl-failed 99 1 what"})
    EXPECT_EQ(shm::MemberRecord::from_text(odd, out).code, Code::kUnreachable) << odd;
}

}  // namespace
}  // namespace customccl::test
