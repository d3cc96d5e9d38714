#include "engines/shm/reader_times.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "engines/members_of_one_process.h"

// A writer is told what its data cost those who read it.

namespace customccl::test {
namespace {

using shm::ReaderTimes;
using shm::StorePolicy;

constexpr StorePolicy::Kind kBroadcasting{Op::kBroadcast, false};

constexpr std::size_t kReadBytes = 8192;
constexpr std::uint64_t kTurn = 100;

class ThreeRanks {
 public:
  static constexpr int kRanks = 3;

  ReaderTimes& operator[](int rank) { return times_[static_cast<std::size_t>(rank)]; }
  shm::Members& members(int rank) { return members_[rank]; }

 private:
  MembersOfOneProcess<kRanks> members_;
  std::array<ReaderTimes, kRanks> times_{ReaderTimes(members_[0]), ReaderTimes(members_[1]), ReaderTimes(members_[2])};
};

constexpr std::chrono::microseconds us(int number) { return std::chrono::microseconds(number); }

// The writer, rank 0, takes a third of the time by non-temporal stores, but one of its readers then three times as long.
TEST(ReaderTimes, CountTogetherWithTheWritersOwn) {
  for (const int slow_reader : {1, 2}) {
    ThreeRanks ranks;
    StorePolicy policy;
    int plain = 0;
    for (int i = 0; i < 300; ++i) {
      bool measure = false;
      const Store store = policy.choose(kReadBytes, kBroadcasting, measure);
      plain += store == Store::kPlain ? 1 : 0;
      if (!measure) continue;
      const std::uint64_t turn = kTurn + static_cast<std::uint64_t>(i);
      ranks[0].ask(turn, policy, kBroadcasting, store, kReadBytes, us(store == Store::kPlain ? 30 : 10));
      for (int reader = 1; reader < ThreeRanks::kRanks; ++reader)
        ranks[reader].tell(turn, us(reader == slow_reader && store == Store::kStreaming ? 120 : 40));
      ranks[0].look();
      EXPECT_FALSE(ranks[0].waits());
    }
    EXPECT_GT(plain, 280) << "slow reader " << slow_reader;
  }
}

TEST(ReaderTimes, AreAwaitedFromEveryReader) {
  ThreeRanks ranks;
  StorePolicy policy;
  for (const std::uint64_t begin : {kTurn, (std::uint64_t{1} << 24) - 1, (std::uint64_t{5} << 24) - 1}) {
    for (const int reader : {1, 2}) ranks[reader].tell(begin - 1, us(1));
    for (std::uint64_t turn = begin; turn < begin + 3; ++turn) {  // in an answer, turns begin again at zero
      ranks[0].ask(turn, policy, kBroadcasting, Store::kPlain, kReadBytes, us(1));
      for (const int reader : {2, 1}) {
        ranks[0].look();
        EXPECT_TRUE(ranks[0].waits()) << turn;
        ranks[reader].tell(turn, us(1));
      }
      ranks[0].look();
      EXPECT_FALSE(ranks[0].waits()) << turn;
    }
  }
}

// Until one is known, plain stores are tried again and again.
TEST(ReaderTimes, ThatAreNoneOrOfALaterQuestionTeachNothing) {
  for (const bool later : {false, true}) {
    ThreeRanks ranks;
    StorePolicy policy;
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t turn = kTurn + static_cast<std::uint64_t>(2 * i);
      bool measure = false;
      EXPECT_EQ(policy.choose(kReadBytes, kBroadcasting, measure), Store::kPlain);
      EXPECT_TRUE(measure);
      ranks[0].ask(turn, policy, kBroadcasting, Store::kPlain, kReadBytes, us(1));
      ranks[1].tell(turn, us(1));
      ranks[2].tell(later ? turn + 1 : turn, later ? std::optional<Nanos>(us(1)) : std::nullopt);
      ranks[0].look();
      EXPECT_FALSE(ranks[0].waits());
    }
  }
}

TEST(ReaderTimes, AreAskedForInTheFlag) {
  ThreeRanks ranks;
  for (const Store store : {Store::kPlain, Store::kStreaming}) {
    for (std::uint64_t turn = kTurn; turn < kTurn + 4; ++turn) {
      const bool asks = turn % 3 == 0;
      shm::Members& writer = ranks.members(1);
      writer.publish(writer.own_line(turn), turn, store, asks);
      EXPECT_EQ(ranks[0].asked(turn), asks);
      EXPECT_FALSE(ranks[1].asked(turn)) << "by itself";
      EXPECT_TRUE(ranks.members(0).line(1, turn).reached(turn));
      EXPECT_FALSE(ranks.members(0).line(1, turn).reached(turn + 1));
      EXPECT_EQ(ranks.members(0).line(1, turn).store(), store);
    }
  }
}

// In operations by turns with two-way ones, of which none is asked about.
TEST(ReaderTimes, AreToldInEveryOperationThatIsAskedAbout) {
  for (const Op op : {Op::kBroadcast, Op::kReduce, Op::kScatter, Op::kGather, Op::kAllGather}) {
    TwoEngines engines;
    const bool writes[] = {op != Op::kReduce && op != Op::kGather, op != Op::kBroadcast && op != Op::kScatter};
    int asked = 0;
    for (int i = 0; i < 40; ++i) {
      Trial trial = even_trial(op, TwoEngines::kRanks, DType::kFloat32, 4096);
      if (op == Op::kAllGather) trial.counts = {4096, 5000};
      for (const Trial& each : {trial, even_trial(Op::kAllReduce, TwoEngines::kRanks, DType::kFloat32, 4096)}) {
        Both both(engines, each);
        for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(both.start(rank), Step::kMoved);
        for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(both.advance(rank), Step::kDone);
        for (int rank = 0; rank < 2; ++rank) {
          EXPECT_EQ(both.part(rank).verify(), "");
          EXPECT_EQ(both.of(rank).tells, both.of(1 - rank).asks);
          if (both.of(rank).asks) {
            EXPECT_EQ(each.op, op);
            EXPECT_TRUE(writes[rank]);
          }
        }
        asked += both.of(0).asks || both.of(1).asks ? 1 : 0;
      }
    }
    // Those that had to map memory are not, and not all are worth a question.
    EXPECT_GE(asked, 5) << static_cast<int>(op);
  }
}

}  // namespace
}  // namespace customccl::test
