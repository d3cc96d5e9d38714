#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>

#include "core/setup_deaths.h"
#include "support/ranks.h"

// A rank whose process ended before another one began, as a launcher starts all again: its successor is awaited.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

// For which all that is there was left by processes that ended before this one began. `looked`: when it looks for what comes instead.
class Later final : public Bootstrap {
 public:
  Later(std::unique_ptr<Bootstrap> honest, std::function<void()> looked)
      : honest_(std::move(honest)), looked_(std::move(looked)) {}
  Status put(const std::string& key, const std::string& value) override { return honest_->put(key, value); }
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override {
    return honest_->get(key, deadline, value);
  }
  bool outdated(const std::string&) override { return true; }
  Status get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                   std::string& value) override {
    for (looked_();; std::this_thread::yield()) {
      if (Status status = get(key, deadline, value); !status.ok() || value != seen) return status;
      if (deadline.passed()) return {Code::kTimeout, "nothing else came"};
    }
  }

 private:
  std::unique_ptr<Bootstrap> honest_;
  std::function<void()> looked_;
};

GroupSpec spec_of_two(const Rank& rank, int number, Nanos timeout) {
  GroupSpec spec = rank.spec("g", timeout);
  spec.rank = number;
  spec.size = 2;
  spec.global_ranks.resize(2);
  return spec;
}

// Process 1 dies as rank 1 of two, process 2 takes its place when rank 0 waits for that.
TEST(SetupProcess, AwaitsTheSuccessorOfARankThatEndedBeforeItBegan) {
  Processes ranks(3, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    if (rank.number() == 1) {
      Dying bootstrap(rank.meeting("g"));
      static_cast<void>(Communicator::create(spec_of_two(rank, 1, 1h), bootstrap, group));
    }
    wait_for_end_of(rank, 1);
    std::string ignored;
    if (rank.number() == 2) {
      ASSERT_TRUE(rank.meeting("looked")->get("told", Deadline(1h), ignored).ok());
    }
    Later bootstrap(rank.meeting("g"), [&] { tell(rank, "looked"); });
    const Status status = Communicator::create(spec_of_two(rank, rank.number() / 2, 1h), bootstrap, group);
    EXPECT_TRUE(status.ok()) << status.message();
  });
  tell_end_of(ranks, 1);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(2), 0);
}

TEST(SetupProcess, NamesWhoEndedBeforeItBeganWhenNoSuccessorComes) {
  Processes ranks(2, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    if (rank.number() == 1) {
      Dying bootstrap(rank.meeting("g"));
      static_cast<void>(Communicator::create(rank.spec("g", 1h), bootstrap, group));
    }
    wait_for_end_of(rank, 1);
    Later bootstrap(rank.meeting("g"), [] {});
    expect_that_it_died(Communicator::create(rank.spec("g", 50ms), bootstrap, group), 41);
  });
  tell_end_of(ranks, 1);
  EXPECT_EQ(ranks.wait(0), 0);
}

// It may well live, in another container that was there before this one.
TEST(Setup, AwaitsNobodyInThePlaceOfARankThatIsOutOfReach) {
  run_threads(2, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    if (rank.number() == 1) {
      EXPECT_TRUE(rank.meeting("g")->put("rank/1", "another host's").ok());
      return;
    }
    Later bootstrap(rank.meeting("g"), [] { ADD_FAILURE() << "it looked for another"; });
    EXPECT_EQ(Communicator::create(rank.spec("g", 1h), bootstrap, group).code, Code::kUnreachable);
  });
}

}  // namespace
}  // namespace customccl::test
