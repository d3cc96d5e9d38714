#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "support/letter.h"
#include "support/ranks.h"
#include "support/trial.h"

// Ranks that call different things: an error on every rank, which names the difference, and the group is over.

namespace customccl::test {
namespace {

// Rank 1 calls `odd`, the others `usual`, after a few calls that agree. Every rank must fail with words from both.
void expect_mismatch(const Trial& usual, const Trial& odd, const std::string& usual_words,
                     const std::string& odd_words) {
  run_threads(usual.size, [&](const Rank& rank) {
    const auto group = rank.join("g");
    const Part good(even_trial(Op::kAllReduce, usual.size, DType::kFloat32, 100), rank.number());
    ASSERT_TRUE(group->run(good.call()).ok());
    const Part part(rank.number() == 1 ? odd : usual, rank.number());
    const Status status = group->run(part.call());
    EXPECT_EQ(status.code, Code::kMismatch) << status.message();
    EXPECT_NE(status.message().find(usual_words), std::string::npos)
        << "no \"" << usual_words << "\" in: " << status.message();
    EXPECT_NE(status.message().find(odd_words), std::string::npos)
        << "no \"" << odd_words << "\" in: " << status.message();
    EXPECT_NE(status.message().find("rank 41"), std::string::npos) << status.message();
    const Status later = group->run(good.call());
    EXPECT_EQ(later.code, Code::kMismatch) << later.message();
    EXPECT_NE(later.message().find("refused"), std::string::npos) << later.message();
  });
}

Trial usual(Op op, int size, std::size_t count = 50'000) { return even_trial(op, size, DType::kFloat32, count); }

TEST(Mismatch, OfTheOperationIsNamedOnEveryRank) {
  for (const int size : {2, 4}) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{50'000}}) {
      expect_mismatch(usual(Op::kAllReduce, size, count), usual(Op::kAllGather, size, count), "all_reduce #2",
                      "all_gather #2");
      expect_mismatch(usual(Op::kBroadcast, size, count), usual(Op::kReduce, size, count), "broadcast #2", "reduce #2");
      expect_mismatch(usual(Op::kAllToAll, size, count), usual(Op::kBarrier, size, count), "all_to_all #2",
                      "barrier #2");
      expect_mismatch(usual(Op::kBarrier, size, count), usual(Op::kReduceScatter, size, count), "barrier #2",
                      "reduce_scatter #2");
    }
  }
}

TEST(Mismatch, OfTheDtypeIsNamedOnEveryRank) {
  Trial odd = usual(Op::kAllReduce, 3);
  odd.dtype = DType::kInt32;
  expect_mismatch(usual(Op::kAllReduce, 3), odd, "float32 x 50000", "int32 x 50000");
}

TEST(Mismatch, OfTheCountIsNamedOnEveryRank) {
  for (const Op op : {Op::kAllReduce, Op::kReduce, Op::kBroadcast}) {
    expect_mismatch(usual(op, 3), usual(op, 3, 50'001), "float32 x 50000", "float32 x 50001");
    expect_mismatch(usual(op, 3, 2), usual(op, 3, 1'000'000), "float32 x 2,", "float32 x 1000000");
  }
}

TEST(Mismatch, OfTheReduceOpIsNamedOnEveryRank) {
  Trial odd = usual(Op::kReduceScatter, 3);
  odd.reduce_op = ReduceOp::kMax;
  expect_mismatch(usual(Op::kReduceScatter, 3), odd, "SUM", "MAX");
}

TEST(Mismatch, OfTheRootIsNamedOnEveryRank) {
  for (const Op op : {Op::kBroadcast, Op::kReduce, Op::kGather, Op::kScatter}) {
    Trial odd = usual(op, 3);
    odd.root = 2;
    expect_mismatch(usual(op, 3), odd, "root 0", "root 2");
  }
}

TEST(Mismatch, OfWhatASenderSendsAndAReceiverExpectsIsNamedOnEveryRank) {
  for (const Op op : {Op::kAllToAll, Op::kGather, Op::kScatter}) {
    for (const int size : {2, 3}) {
      for (const std::size_t count : {std::size_t{2}, std::size_t{10}, std::size_t{1000}, std::size_t{100'000}}) {
        Trial odd = usual(op, size, count);
        const std::size_t sent = size == 2 ? 1 * 2 + 0 : 1 * 3 + 2;  // by rank 1 to another
        odd.counts[op == Op::kAllToAll ? sent : 1] = count + 7;      // rank 1's view of what goes from or to it
        expect_mismatch(usual(op, size, count), odd, "sends", "expects");
      }
    }
  }
}

// Also with itself: found before anything is written behind the smaller one.
TEST(Mismatch, OfWhatARankSendsToItselfIsNamedOnEveryRank) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    std::vector<float> sent(20, 1.0F), received(20, 7.0F);
    const auto view = [](std::vector<float>& values, std::size_t begin, std::size_t count) {
      return View{reinterpret_cast<std::byte*>(values.data()), nullptr, begin, count};
    };
    const std::size_t expected = rank.number() == 1 ? 6 : 10;  // of itself, of ten
    const std::size_t own = rank.number() == 1 ? 10 : 0;       // where that begins
    const std::array inputs{view(sent, 0, 10), view(sent, 10, 10)};
    std::array outputs{view(received, 0, 10), view(received, 10, 10)};
    outputs[static_cast<std::size_t>(rank.number())] = view(received, own, expected);
    Call call;
    call.op = Op::kAllToAll;
    call.dtype = DType::kFloat32;
    call.inputs = inputs;
    call.outputs = outputs;
    const Status status = group->run(call);
    EXPECT_EQ(status.code, Code::kMismatch) << status.message();
    EXPECT_NE(status.message().find("sends 10 elements to rank 41"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("expects 6"), std::string::npos) << status.message();
    if (rank.number() == 1) {
      EXPECT_TRUE(std::all_of(received.begin() + 16, received.end(), [](float x) { return x == 7.0F; }));
    }
  });
}

TEST(Mismatch, OfCountsPerRankIsFoundAlthoughTheTotalsAgree) {
  for (const Op op : {Op::kAllGather, Op::kReduceScatter}) {
    Trial odd = usual(op, 3, 10);
    odd.counts = {9, 10, 11};
    expect_mismatch(usual(op, 3, 10), odd, "called different things", "with other counts per rank");
  }
}

TEST(Mismatch, OfOrderIsFound) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    const Part reduce(usual(Op::kAllReduce, 2), rank.number());
    const Part gather(usual(Op::kAllGather, 2), rank.number());
    const Status first = group->run(rank.number() == 0 ? reduce.call() : gather.call());
    EXPECT_EQ(first.code, Code::kMismatch) << first.message();
  });
}

// Each rank writes down what it called only when it sees that another called something else (control_block.h): also one that posted and
// went on to other things, and one that came first and sleeps.
TEST(Mismatch, IsToldWhereNobodyWaits) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{50'000}}) {
    run_threads(3, [&](const Rank& rank) {
      const auto group = rank.join("g");
      const Part part(usual(Op::kAllReduce, 3, rank.number() == 2 ? count + 1 : count), rank.number());
      if (rank.number() == 2) rank.meet("the others have posted");
      const auto task = post(*group, part);
      if (rank.number() != 2) rank.meet("the others have posted");
      while (!task->done()) std::this_thread::yield();
      EXPECT_EQ(task->status().code, Code::kMismatch) << task->status().message();
      EXPECT_NE(task->status().message().find("float32 x " + std::to_string(count + 1)), std::string::npos)
          << task->status().message();
    });
  }
}

TEST(Mismatch, OfGroupSizesIsNamedWhenTheGroupIsMade) {
  run_threads(2, [](const Rank& rank) {
    GroupSpec spec = rank.spec("g", std::chrono::seconds(60));
    if (rank.number() == 1) {
      spec.size = 3;
      spec.global_ranks.push_back(99);
    }
    std::shared_ptr<Communicator> group;
    const Status status = rank.try_join(spec, group);
    EXPECT_EQ(status.code, Code::kMismatch) << status.message();
    EXPECT_NE(status.message().find("a group of"), std::string::npos) << status.message();
    EXPECT_EQ(group, nullptr);
  });
}

}  // namespace
}  // namespace customccl::test
