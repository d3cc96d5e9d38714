#include <gtest/gtest.h>

#include <cstring>

#include "kernels/float_mode.h"
#include "platform/settings.h"
#include "support/ranks.h"

// The promise "the same bits on every rank, whatever the size": compared with each other, without an oracle.

namespace customccl::test {
namespace {

constexpr std::size_t kCount = 70'007;

// Values whose float sums depend on the order of summation.
std::vector<float> rugged_values(int rank) {
  std::vector<float> values(kCount);
  std::uint32_t state = 12345u + static_cast<std::uint32_t>(rank) * 7919u;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    const float magnitude = state % 3 == 0 ? 1e6f : state % 3 == 1 ? 1.0f : 1e-3f;
    value = (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) * magnitude;
  }
  return values;
}

std::vector<float> all_reduced(Communicator& group, std::vector<float>& input, std::size_t first, std::size_t count) {
  std::vector<float> output(count);
  const View in{reinterpret_cast<std::byte*>(input.data()), nullptr, first, count};
  const View out{reinterpret_cast<std::byte*>(output.data()), nullptr, 0, count};
  Call call;
  call.op = Op::kAllReduce;
  call.dtype = DType::kFloat32;
  call.inputs = {&in, 1};
  call.outputs = {&out, 1};
  const Status status = group.run(call);
  EXPECT_TRUE(status.ok()) << status.message();
  return output;
}

bool same_bits(const std::vector<float>& a, const float* b) { return std::memcmp(a.data(), b, a.size() * 4) == 0; }

TEST(Bits, AreTheSameOnEveryRankAndInEverySizeClass) {
  for (const int size : {2, 3, 5, 8}) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(size));
    run_threads(size, [&](const Rank& rank) {
      const auto group = rank.join("g");
      std::vector<float> input = rugged_values(rank.number());
      std::vector<float>& whole = results[static_cast<std::size_t>(rank.number())];
      whole = all_reduced(*group, input, 0, kCount);
      for (const std::size_t count : {1, 7, 12, 13, 1000, 9000, 60'000}) {
        for (const std::size_t first : {std::size_t{0}, std::size_t{3}, kCount - count}) {
          EXPECT_TRUE(same_bits(all_reduced(*group, input, first, count), whole.data() + first))
              << count << " from " << first;
        }
      }
    });
    for (const auto& result : results) EXPECT_TRUE(same_bits(result, results[0].data())) << size << " ranks";
  }
}

TEST(Bits, AreTheSameWhereOneRankFlushesDenormals) {
  std::vector<std::vector<float>> results(3);
  run_threads(3, [&](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 1) kernels::set_float_mode(kernels::float_mode() | kernels::kFlushing);
    std::vector<float> input(1000, 1e-40f);
    std::vector<float>& all = results[static_cast<std::size_t>(rank.number())];
    for (const std::size_t count : {3, 1000}) {
      const std::vector<float> some = all_reduced(*group, input, 0, count);
      all.insert(all.end(), some.begin(), some.end());
    }
  });
  EXPECT_EQ(results[0], std::vector<float>(1003, 1e-40f + 1e-40f + 1e-40f));
  for (const auto& result : results) EXPECT_TRUE(same_bits(result, results[0].data()));
}

}  // namespace
}  // namespace customccl::test
