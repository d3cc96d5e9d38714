#include "kernels/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>

#include "kernels/guarded.h"

namespace customccl::test {
namespace {

using How = std::tuple<Store, Origin>;

class Copy : public testing::TestWithParam<How> {};

void copy_so(How how, std::byte* to, const std::byte* from, std::size_t bytes) {
  copy(to, from, bytes, std::get<Store>(how), std::get<Origin>(how));
}

void number(Guarded& buffer) {
  for (std::size_t i = 0; i < buffer.bytes().size(); ++i) buffer.data()[i] = static_cast<std::byte>(i * 37 + i / 251);
}

void expect_copied(std::size_t bytes, std::size_t to, std::size_t from, How how) {
  Guarded source(bytes, from), target(bytes, to);
  number(source);
  copy_so(how, target.data(), source.data(), bytes);
  ASSERT_EQ(std::memcmp(target.data(), source.data(), bytes), 0) << bytes << " bytes from " << from << " to " << to;
  ASSERT_TRUE(target.guards_intact()) << bytes << " bytes from " << from << " to " << to;
}

TEST_P(Copy, MovesEveryByteForEveryAlignment) {
  for (std::size_t to = 0; to < 64; ++to) {
    for (const std::size_t from : {0u, 1u, 8u, 31u, 63u}) {
      for (const std::size_t bytes : {0u, 1u, 15u, 63u, 64u, 65u, 127u, 128u, 129u, 300u, 2047u, 2048u, 2111u, 4096u}) {
        ASSERT_NO_FATAL_FAILURE(expect_copied(bytes, to, from, GetParam()));
      }
    }
  }
}

TEST_P(Copy, MovesEveryByteForEverySmallSize) {
  for (std::size_t bytes = 0; bytes < 520; ++bytes)
    ASSERT_NO_FATAL_FAILURE(expect_copied(bytes, bytes % 64, 3, GetParam()));
}

TEST_P(Copy, MovesEverySizeThatNoWholeNumberOfLinesMakes) {
  for (std::size_t bytes = 2048; bytes < 2048 + 260; ++bytes)
    ASSERT_NO_FATAL_FAILURE(expect_copied(bytes, bytes % 61, bytes % 59, GetParam()));
}

TEST_P(Copy, MovesManyLines) {
  for (const std::size_t to : {0u, 9u, 32u}) {
    for (const std::size_t bytes : {16'383u, 16'384u, 16'500u, 65'536u, 65'537u, (1u << 20) + 77})
      ASSERT_NO_FATAL_FAILURE(expect_copied(bytes, to, 0, GetParam()));
  }
}

TEST_P(Copy, OntoItselfDoesNothing) {
  Guarded buffer(1000, 5);
  number(buffer);
  const std::vector<std::byte> before(buffer.bytes().begin(), buffer.bytes().end());
  copy_so(GetParam(), buffer.data(), buffer.data(), 1000);
  EXPECT_EQ(std::memcmp(before.data(), buffer.data(), 1000), 0);
}

TEST_P(Copy, OfNothingTakesNullPointers) { copy_so(GetParam(), nullptr, nullptr, 0); }

std::string name_of(Origin origin) {
  switch (origin) {
    case Origin::kCache: return "cache";
    case Origin::kPeer: return "peer";
    case Origin::kMemory: return "memory";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(All, Copy,
                         testing::Combine(testing::Values(Store::kPlain, Store::kStreaming),
                                          testing::Values(Origin::kCache, Origin::kPeer, Origin::kMemory)),
                         [](const auto& test) {
                           const bool plain = std::get<Store>(test.param) == Store::kPlain;
                           return (plain ? "plain_from_" : "streaming_from_") + name_of(std::get<Origin>(test.param));
                         });

}  // namespace
}  // namespace customccl::test
