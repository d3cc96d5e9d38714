#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/guarded.h"
#include "kernels/oracle.h"
#include "kernels/reduce_table.h"
#include "kernels/tables.h"

// Every defined (dtype, reduce op), on every instruction set of this processor, against the oracle.

namespace customccl::test {
namespace {

constexpr std::size_t kMaxSources = 9;
constexpr std::size_t kMaxCount = 1500;

// n sources with position-coded values at odd addresses, and what reducing them should give.
struct Problem {
  Problem(const Case& what, std::size_t n, std::size_t count) : what_(what), count_(count) {
    const std::size_t size = size_of(what.dtype);
    for (std::size_t k = 0; k < n; ++k) {
      sources_.emplace_back(count * size, (k * 7 + count) % 64);
      for (std::size_t i = 0; i < count; ++i) fill(what.dtype, k, i, sources_[k].data() + i * size);
    }
    expected_.resize(count * size);
    std::vector<const std::byte*> elements(n);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < n; ++k) elements[k] = sources_[k].data() + i * size;
      expected_reduce(what.dtype, what.op, elements, expected_.data() + i * size);
    }
  }

  std::vector<const std::byte*> pointers() const {
    std::vector<const std::byte*> all;
    for (const Guarded& source : sources_) all.push_back(source.data());
    return all;
  }

  // dst is sources[alias], or a buffer of its own where there is no such source.
  void check(InstructionSet set, std::size_t alias, const ReduceHints& hints = {}) const {
    std::vector<Guarded> copies = sources_;
    Guarded own(expected_.size(), count_ % 61);
    Guarded& dst = alias < copies.size() ? copies[alias] : own;
    std::vector<const std::byte*> from;
    for (const Guarded& copy : copies) from.push_back(copy.data());
    kernels::reduce(kernels::reduce_table(set), dst.data(), from, count_, what_.dtype, what_.op, hints);
    ASSERT_EQ(first_difference(dst), count_) << where(set, alias);
    ASSERT_TRUE(dst.guards_intact()) << where(set, alias);
    for (std::size_t k = 0; k < copies.size(); ++k) {
      if (k == alias) continue;
      ASSERT_EQ(std::memcmp(copies[k].data(), sources_[k].data(), expected_.size()), 0) << where(set, alias);
    }
  }

  std::size_t first_difference(const Guarded& dst) const {
    const std::size_t size = size_of(what_.dtype);
    for (std::size_t i = 0; i < count_; ++i) {
      if (std::memcmp(dst.data() + i * size, expected_.data() + i * size, size) != 0) return i;
    }
    return count_;
  }

 private:
  std::string where(InstructionSet set, std::size_t alias) const {
    return to_string(what_) + " on " + customccl::to_string(set) + ", " + std::to_string(sources_.size()) +
           " sources, dst is " + std::to_string(alias);
  }

  Case what_;
  std::size_t count_;
  std::vector<Guarded> sources_;
  std::vector<std::byte> expected_;
};

class Reduce : public testing::TestWithParam<Case> {};

TEST_P(Reduce, GivesTheOracleForEveryCountAroundTheStrips) {
  for (const std::size_t n : {1u, 2u, 3u, 5u}) {
    for (std::size_t count = 0; count <= 70; ++count) {
      const Problem problem(GetParam(), n, count);
      for (const InstructionSet set : instruction_sets()) ASSERT_NO_FATAL_FAILURE(problem.check(set, n));
    }
  }
}

TEST_P(Reduce, GivesTheOracleForManyStrips) {
  for (const std::size_t count : {127u, 128u, 129u, 255u, 256u, 257u, 300u, 511u, 513u, 1025u, unsigned{kMaxCount}}) {
    for (const std::size_t n : {2u, 4u}) {
      const Problem problem(GetParam(), n, count);
      for (const InstructionSet set : instruction_sets()) ASSERT_NO_FATAL_FAILURE(problem.check(set, n));
    }
  }
}

// The result goes to a second place, too: in steps, in rows, and what is less than a step.
TEST_P(Reduce, WritesATwin) {
  const std::size_t size = size_of(GetParam().dtype);
  const std::size_t pages = 4 * 4096 / size;
  for (const std::size_t count : {std::size_t{1}, 256 / size - 1, 256 / size, 1000 / size + 1, pages, pages + 77}) {
    for (const std::size_t n : {1u, 2u, 3u}) {
      const Problem problem(GetParam(), n, count);
      for (const InstructionSet set : instruction_sets()) {
        for (const Origin origin : {Origin::kCache, Origin::kPeer, Origin::kMemory}) {
          for (const Store store : {Store::kPlain, Store::kStreaming}) {
            Guarded twin(count * size);
            ASSERT_NO_FATAL_FAILURE(problem.check(set, n, {origin, twin.data(), store}));
            ASSERT_EQ(problem.first_difference(twin), count) << to_string(GetParam()) << " of " << n;
            ASSERT_TRUE(twin.guards_intact()) << to_string(GetParam()) << " of " << n;
          }
        }
      }
    }
  }
}

// Read in rows of whole pages: as much as makes rows of one page and of three, with something left over.
TEST_P(Reduce, GivesTheOracleForWhatLiesInMemory) {
  const std::size_t pages = 4 * 4096 / size_of(GetParam().dtype);
  for (const std::size_t count : {pages - 1, pages, pages + 77, 3 * pages + 5}) {
    const Problem problem(GetParam(), 2, count);
    for (const InstructionSet set : instruction_sets()) {
      for (const std::size_t alias : {0u, 2u}) ASSERT_NO_FATAL_FAILURE(problem.check(set, alias, {Origin::kMemory}));
    }
  }
}

TEST_P(Reduce, MayWriteOverAnyOneSource) {
  for (std::size_t n = 1; n <= kMaxSources; ++n) {
    const Problem problem(GetParam(), n, 333);
    for (const InstructionSet set : instruction_sets()) {
      for (std::size_t alias = 0; alias <= n; ++alias) ASSERT_NO_FATAL_FAILURE(problem.check(set, alias));
    }
  }
}

TEST_P(Reduce, ByTheChosenInstructionSetIsTheSame) {
  const Problem problem(GetParam(), 3, 100);
  const std::size_t bytes = 100 * size_of(GetParam().dtype);
  Guarded chosen(bytes, 3), table(bytes, 5);
  reduce(chosen.data(), problem.pointers(), 100, GetParam().dtype, GetParam().op);
  kernels::reduce(kernels::reduce_table(InstructionSet::kBaseline), table.data(), problem.pointers(), 100,
                  GetParam().dtype, GetParam().op, {});
  EXPECT_EQ(std::memcmp(chosen.data(), table.data(), bytes), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Reduce, testing::ValuesIn(cases()),
                         [](const auto& test) { return to_string(test.param); });

class Scale : public testing::TestWithParam<DType> {};

TEST_P(Scale, MultipliesEveryElement) {
  const DType dtype = GetParam();
  const std::size_t size = size_of(dtype);
  for (const std::complex<double> factor : {std::complex<double>{0.3, 0.0}, {-2.5, 0.75}, {1e-3, 0.0}}) {
    for (const std::size_t count : {0u, 1u, 7u, 8u, 63u, 64u, 65u, 200u}) {
      for (const InstructionSet set : instruction_sets()) {
        Guarded source(count * size, 1), expected(count * size), apart(count * size, 17);
        for (std::size_t i = 0; i < count; ++i) {
          fill(dtype, 0, i, source.data() + i * size);
          expected_scale(dtype, source.data() + i * size, factor, expected.data() + i * size);
        }
        kernels::scale(kernels::reduce_table(set), apart.data(), source.data(), count, dtype, factor);
        ASSERT_EQ(std::memcmp(apart.data(), expected.data(), count * size), 0) << count << " " << factor;
        kernels::scale(kernels::reduce_table(set), source.data(), source.data(), count, dtype, factor);
        ASSERT_EQ(std::memcmp(source.data(), expected.data(), count * size), 0) << count << " " << factor;
        ASSERT_TRUE(apart.guards_intact() && source.guards_intact());
      }
    }
  }
}

std::vector<DType> scalable() {
  std::vector<DType> all;
  for (const DTypeInfo& type : kDTypes) {
    if (is_defined(ReduceOp::kPremulSum, type.dtype)) all.push_back(type.dtype);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Scale, testing::ValuesIn(scalable()),
                         [](const auto& test) { return std::string(name(test.param)); });

}  // namespace
}  // namespace customccl::test
