#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "engines/members_of_one_process.h"
#include "host/limbo.h"
#include "host/own_arena.h"
#include "host/tensor_memory.h"

// Results that peers write into outputs of this rank: between processes, as threads of one have nothing to withdraw from one another.

namespace customccl::test {
namespace {

constexpr std::array kPlaces{Shape::kPages, Shape::kPages, Shape::kShared, Shape::kPlain, Shape::kGaps};

// Each rank draws where its own tensors lie, all of them what is called.
TEST(ShownTensorsProcess, AreRightWhereverEachRanksTensorsLie) {
  for (const int size : {2, 3, 4}) {
    run_processes(size, [](const Rank& rank) {
      const auto group = rank.join("g");
      Dice all(static_cast<std::uint64_t>(rank.size()));
      Dice own(static_cast<std::uint64_t>(100 + rank.number()));
      for (int i = 0; i < rounds(100) && !testing::Test::HasFailure(); ++i) {
        const Op op = all.one_in(3) ? Op::kReduce : Op::kAllReduce;
        const auto dtype = std::array{DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kFloat64}[i % 4];
        const std::size_t bytes = all.below(std::uint64_t{all.one_in(4) ? 9u << 20 : 300u << 10});
        Trial trial = even_trial(op, rank.size(), dtype, bytes / size_of(dtype));
        trial.reduce_op = all.one_in(5) && dtype == DType::kFloat32 ? ReduceOp::kPremulSum : ReduceOp::kSum;
        trial.root = all.below(rank.size());
        trial.seed = static_cast<std::uint64_t>(i);
        trial.in_place = all.one_in(2);
        trial.input_shape = kPlaces[own.below(kPlaces.size())];
        trial.output_shape = kPlaces[own.below(kPlaces.size())];
        const Part part(trial, rank.number());
        const Status status = group->run(part.call());
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_EQ(part.verify(), "") << "rank " << rank.number() << ": " << trial.describe();
      }
    });
  }
}

// One operation, which a rank drives by hand.
struct Driven {
  Driven(const Rank& rank, std::size_t count)
      : engine(meet_members(rank)), part(std::make_unique<Part>(trial_of(count), rank.number())) {
    op.call = &part->call();
    op.sequence = 1;
  }
  static Trial trial_of(std::size_t count) {
    Trial trial = even_trial(Op::kAllReduce, 2, DType::kFloat32, count);
    trial.input_shape = Shape::kPages;
    trial.in_place = true;
    return trial;
  }
  std::span<std::byte> tensor() const {
    const View& output = part->call().outputs[0];
    return {output.at(0, sizeof(float)), output.count * sizeof(float)};
  }

  shm::ShmEngine engine;
  std::unique_ptr<Part> part;
  Operation op;
  Status failure;
};

// By memcmp: bytes one by one take a sanitizer a minute.
bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return bytes.front() == value && same_bytes(bytes.first(bytes.size() - 1), bytes.last(bytes.size() - 1));
}

// What the file of this process's arena holds where `bytes` lie.
std::vector<std::byte> in_the_file(std::span<const std::byte> bytes) {
  std::byte* base = nullptr;
  EXPECT_TRUE(map_memory_file(arena().file().fd, arena().bytes(), base).ok());
  const std::byte* begin = base + (bytes.data() - arena().base());
  std::vector<std::byte> found(begin, begin + bytes.size());
  unmap_memory(base, arena().bytes());
  return found;
}

// Rank 0 gives up, and its caller writes to the tensor and frees it, before rank 1, which knows nothing of that, writes its results.
void expect_no_late_write(std::size_t count, void (*give_up)(shm::ShmEngine&)) {
  constexpr std::byte kOwn{0xab};
  run_processes(2, [&](const Rank& rank) {
    std::size_t word = 0;  // whose page stays
    ASSERT_TRUE(arena().take_word(word).ok());
    arena().give_word(word);
    const std::size_t in_use = arena().bytes_in_use();
    {
      Driven driven(rank, count);
      EXPECT_EQ(driven.engine.start(driven.op, driven.failure), Step::kMoved);
      rank.meet("started");
      if (rank.number() == 1) {
        rank.meet("given up");
        while (driven.engine.advance(driven.op, driven.failure) == Step::kMoved) {
        }
        rank.meet("written");
        rank.meet("freed");
      } else {
        const std::vector<std::byte> before(driven.tensor().begin(), driven.tensor().end());
        give_up(driven.engine);
        driven.engine.withdraw_tensors(driven.op);
        EXPECT_TRUE(same_bytes(driven.tensor(), before));
        std::ranges::fill(driven.tensor(), kOwn);
        rank.meet("given up");
        rank.meet("written");
        EXPECT_TRUE(all_are(driven.tensor(), kOwn));
        EXPECT_FALSE(same_bytes(in_the_file(driven.tensor()), before)) << "rank 1 wrote nothing: this shows nothing";
        EXPECT_FALSE(arena().shares(driven.tensor().data(), 1));
        EXPECT_EQ(driven.part->call().outputs.size(), 1u);
        const std::byte* const place = driven.tensor().data();
        const std::size_t bytes = driven.tensor().size();
        driven.part.reset();
        Block other;
        EXPECT_TRUE(arena().allocate(bytes, other).ok());
        EXPECT_TRUE(other.data + other.bytes <= place || other.data >= place + bytes) << "rank 1 could write there";
        arena().release(other);
        rank.meet("freed");
      }
    }
    rank.meet("closed");
    reclaim_limbo();
    TensorMemory::of_process().give_back_all();
    EXPECT_EQ(arena().bytes_in_use(), in_use);
    // What was withdrawn is as any other memory again.
    Block block;
    EXPECT_TRUE(arena().allocate(64 << 20, block).ok());
    EXPECT_TRUE(arena().shares(block.data, block.bytes));
    EXPECT_TRUE(all_are({block.data, block.bytes}, std::byte{0}));
    std::memset(block.data, 0x11, block.bytes);
    EXPECT_TRUE(same_bytes(in_the_file({block.data, block.bytes}), std::span(block.data, block.bytes)));
    arena().release(block);
  });
}

void time_out(shm::ShmEngine& engine) { engine.fail({Code::kTimeout, "the timeout passed", Rank::kGlobal}); }
void leave(shm::ShmEngine& engine) { engine.abandon(); }

TEST(ShownTensorsProcess, AreOutOfReachOnceTheirRankHasGivenUp) {
  expect_no_late_write(600'000, time_out);
  expect_no_late_write(100'001, time_out);  // ends within a page
  expect_no_late_write(600'000, leave);
}

// One that comes when the other has given up still writes.
TEST(ShownTensorsProcess, KeepTheirContentsWhenAPeerDoesNotCome) {
  run_processes(2, [](const Rank& rank) {
    const auto group = rank.join("g", std::chrono::milliseconds(200));
    const Part part(Driven::trial_of(500'000), rank.number());
    const View& output = part.call().outputs[0];
    const std::span<const std::byte> tensor(output.at(0, sizeof(float)), output.count * sizeof(float));
    const std::vector<std::byte> before(tensor.begin(), tensor.end());
    if (rank.number() == 1) rank.meet("timed out");
    const Status status = group->run(part.call());
    EXPECT_FALSE(status.ok());
    if (rank.number() == 0) rank.meet("timed out");
    rank.meet("written");
    if (rank.number() == 1) return;
    EXPECT_EQ(status.code, Code::kTimeout) << status.message();
    EXPECT_TRUE(same_bytes(tensor, before));
    EXPECT_FALSE(same_bytes(in_the_file(tensor), before)) << "rank 1 wrote nothing: this shows nothing";
  });
}

}  // namespace
}  // namespace customccl::test
