#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "engines/shm/shm_engine.h"
#include "support/ranks.h"
#include "support/trial.h"

// Ranks of this process that one thread drives, step by step.

namespace customccl::test {

inline std::unique_ptr<shm::Members> meet_members(const Rank& rank) {
  std::unique_ptr<shm::Members> members;
  const auto meeting = rank.meeting("g");
  const Status status =
      shm::Members::meet(rank.spec("g", std::chrono::minutes(5)), *meeting, Deadline(std::chrono::minutes(5)), members);
  EXPECT_TRUE(status.ok()) << status.message();
  return members;
}

template <int kCount>
class MembersOfOneProcess {
 public:
  MembersOfOneProcess() {
    run_threads(kCount,
                [this](const Rank& rank) { members_[static_cast<std::size_t>(rank.number())] = meet_members(rank); });
  }
  shm::Members& operator[](int rank) { return *members_[static_cast<std::size_t>(rank)]; }

 private:
  std::array<std::unique_ptr<shm::Members>, kCount> members_;
};

class TwoEngines {
 public:
  static constexpr int kRanks = 2;

  TwoEngines() {
    run_threads(kRanks, [this](const Rank& rank) {
      engines_[static_cast<std::size_t>(rank.number())] = std::make_unique<shm::ShmEngine>(meet_members(rank));
    });
  }
  shm::ShmEngine& operator[](int rank) { return *engines_[static_cast<std::size_t>(rank)]; }
  void close(int rank) { engines_[static_cast<std::size_t>(rank)].reset(); }

 private:
  std::array<std::unique_ptr<shm::ShmEngine>, kRanks> engines_;
};

// An operation of both, not yet begun.
struct Both {
  Both(TwoEngines& two, const Trial& trial) : engines(two) {
    for (int rank = 0; rank < TwoEngines::kRanks; ++rank) {
      parts.push_back(std::make_unique<Part>(trial, rank));
      operations[static_cast<std::size_t>(rank)].call = &parts.back()->call();
      operations[static_cast<std::size_t>(rank)].sequence = 1;
    }
  }
  Step start(int rank) { return engines[rank].start(of(rank), failure); }
  Step advance(int rank) { return engines[rank].advance(of(rank), failure); }
  Operation& of(int rank) { return operations[static_cast<std::size_t>(rank)]; }
  Part& part(int rank) { return *parts[static_cast<std::size_t>(rank)]; }

  TwoEngines& engines;
  std::vector<std::unique_ptr<Part>> parts;
  std::array<Operation, TwoEngines::kRanks> operations;
  Status failure;
};

}  // namespace customccl::test
