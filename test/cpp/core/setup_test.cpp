#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <utility>

#include "core/setup_deaths.h"
#include "support/ranks.h"
#include "support/trial.h"

// Groups that cannot be made: an error on every rank within its deadline, and nothing that harms the next attempt.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

// Answers for one key with something else, or not at all.
class Lying final : public Bootstrap {
 public:
  Lying(std::unique_ptr<Bootstrap> honest, std::string key, Status status)
      : honest_(std::move(honest)), key_(std::move(key)), status_(std::move(status)) {}
  Status put(const std::string& key, const std::string& value) override { return honest_->put(key, value); }
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override {
    if (key == key_) return status_;
    return honest_->get(key, deadline, value);
  }

 private:
  std::unique_ptr<Bootstrap> honest_;
  std::string key_;
  Status status_;
};

TEST(Setup, EndsInTimeWithTheNameOfTheRankThatDidNotJoin) {
  run_threads(3, [](const Rank& rank) {
    if (rank.number() == 1) return;
    std::shared_ptr<Communicator> group;
    const Status status = rank.try_join(rank.spec("g", 100ms), group);
    EXPECT_EQ(status.code, Code::kTimeout) << status.message();
    EXPECT_EQ(status.culprit, 41);
    EXPECT_NE(status.message().find("rank 41 did not join"), std::string::npos) << status.message();
  });
}

// Rank 0 fails to learn about rank 1, while rank 1 knows everybody and waits: it must hear of the failure, not wait for its own
// deadline, although rank 0 gave the group up before it ever mapped rank 1.
TEST(Setup, ThatFailsOnOneRankIsToldToThoseWhoJoined) {
  run_threads(2, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    const GroupSpec spec = rank.spec("g", 1h);
    if (rank.number() == 0) {
      Lying bootstrap(rank.meeting("g"), "rank/1", {Code::kSystem, "the store is broken"});
      EXPECT_EQ(Communicator::create(spec, bootstrap, group).code, Code::kSystem);
      rank.meet("failed");
      return;
    }
    rank.meet("failed");
    const Status status = rank.try_join(spec, group);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("the store is broken"), std::string::npos) << status.message();
  });
}

// The memory of an attempt that failed here may be used for the next group while a peer still holds on to the old one.
// Its flags must not be taken for the old group's.
TEST(Setup, ThatFailedDoesNotMixWithTheNextGroup) {
  run_threads(3, [](const Rank& rank) {
    std::shared_ptr<Communicator> old;
    if (rank.number() == 0) {
      Lying bootstrap(rank.meeting("old"), "rank/1", {Code::kSystem, "the store is broken"});
      EXPECT_FALSE(Communicator::create(rank.spec("old", 1h), bootstrap, old).ok());
    }
    std::thread behind([&] {
      if (rank.number() == 0) return;
      EXPECT_FALSE(rank.try_join(rank.spec("old", 1h), old).ok());
    });
    const auto next = rank.join("next");
    const Part part(even_trial(Op::kAllReduce, 3, DType::kInt32, 5000), rank.number());
    EXPECT_TRUE(next->run(part.call()).ok());
    EXPECT_EQ(part.verify(), "");
    behind.join();
  });
}

TEST(Setup, RefusesARecordOfAnEarlierGroup) {
  run_threads(2, [](const Rank& rank) {
    const auto first = rank.join("same place");
    first->close();
    rank.meet("closed");
    std::shared_ptr<Communicator> second;
    if (rank.number() == 1) return rank.meet("refused");
    // Rank 1's record is still there, its block is not.
    const Status status = rank.try_join(rank.spec("same place", 10s), second);
    EXPECT_FALSE(status.ok());
    rank.meet("refused");
  });
}

TEST(Setup, RefusesGroupsLargerThanTheEngineCanServe) {
  run_threads(1, [](const Rank& rank) {
    GroupSpec spec = rank.spec("g", 10s);
    spec.size = 257;
    spec.global_ranks.resize(257);
    std::shared_ptr<Communicator> group;
    const Status status = rank.try_join(spec, group);
    EXPECT_EQ(status.code, Code::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find("256"), std::string::npos) << status.message();
  });
}

// Looks at the others only after something has happened; `looked`: tells when it comes to look at this key.
class Late final : public Bootstrap {
 public:
  Late(std::unique_ptr<Bootstrap> honest, std::string key, std::function<void(bool found)> pause)
      : honest_(std::move(honest)), key_(std::move(key)), pause_(std::move(pause)) {}
  Status put(const std::string& key, const std::string& value) override { return honest_->put(key, value); }
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override {
    if (key == key_) pause_(false);
    const Status status = honest_->get(key, deadline, value);
    if (key == key_) pause_(true);
    return status;
  }

 private:
  std::unique_ptr<Bootstrap> honest_;
  std::string key_;
  std::function<void(bool found)> pause_;
};

TEST(SetupProcess, NamesARankThatDiedBeforeItsPeersReachedIt) {
  Processes ranks(3, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    if (rank.number() == 2) {
      Dying bootstrap(rank.meeting("g"));
      static_cast<void>(Communicator::create(rank.spec("g", 1h), bootstrap, group));
    }
    wait_for_end_of(rank, 2);
    const Status status = rank.try_join(rank.spec("g", 1h), group);
    expect_that_it_died(status, 42);
    EXPECT_NE(status.message().find("restart the job"), std::string::npos) << status.message();
    rank.meet("end");
  });
  tell_end_of(ranks, 2);
  EXPECT_TRUE(ranks.onlooker().meeting("meet end")->put("2", "").ok());
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
}

// Rank 0 has reached everybody when rank 2 dies; ranks 1 and 3 have not yet.
TEST(SetupProcess, NamesARankThatDiedBeforeOnlySomeOfItsPeersReachedIt) {
  Processes ranks(4, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    const char* key = rank.number() == 0 ? "rank/3" : rank.number() == 3 ? "rank/0" : "rank/2";
    Late bootstrap(rank.meeting("g"), rank.number() == 2 ? "rank/0" : key, [&](bool found) {
      if (rank.number() == 0 && found) tell(rank, "reached");
      if (rank.number() == 0 || found) return;
      if (rank.number() != 2) return wait_for_end_of(rank, 2);
      std::string ignored;
      static_cast<void>(rank.meeting("never")->get("comes", Deadline(1h), ignored));
    });
    expect_that_it_died(Communicator::create(rank.spec("g", 1h), bootstrap, group), 42);
    if (rank.number() != 2) rank.meet("end");
  });
  std::string ignored;
  ASSERT_TRUE(ranks.onlooker().meeting("reached")->get("told", Deadline(1h), ignored).ok());
  ranks.signal(2, SIGKILL);
  tell_end_of(ranks, 2);
  EXPECT_TRUE(ranks.onlooker().meeting("meet end")->put("2", "").ok());
  for (const int rank : {0, 1, 3}) EXPECT_EQ(ranks.wait(rank), 0);
}

// Rank 0 gave up because of rank 1, and has ended, too, before rank 2 reaches it: with its record already in hand, or not.
TEST(SetupProcess, NamesTheRankThatDiedFirstAlsoWhenTheOnesWhoSawItAreGone) {
  for (const bool in_hand : {false, true}) {
    Processes ranks(3, [in_hand](const Rank& rank) {
      std::shared_ptr<Communicator> group;
      if (rank.number() == 1) {
        Dying bootstrap(rank.meeting("g"));
        static_cast<void>(Communicator::create(rank.spec("g", 1h), bootstrap, group));
      }
      bool first = true;
      Late bootstrap(rank.meeting("g"), "rank/0", [&](bool found) {
        if (found != in_hand || !std::exchange(first, false)) return;
        if (in_hand) tell(rank, "in hand");
        wait_for_end_of(rank, 0);
      });
      if (rank.number() == 0) {
        wait_for_end_of(rank, 1);
        std::string ignored;
        if (in_hand) {
          Late patient(rank.meeting("g"), "rank/1",
                       [&](bool) { EXPECT_TRUE(rank.meeting("in hand")->get("told", Deadline(1h), ignored).ok()); });
          return expect_that_it_died(Communicator::create(rank.spec("g", 1h), patient, group), 41);
        }
        return expect_that_it_died(rank.try_join(rank.spec("g", 1h), group), 41);
      }
      expect_that_it_died(Communicator::create(rank.spec("g", 1h), bootstrap, group), 41);
    });
    tell_end_of(ranks, 1);
    tell_end_of(ranks, 0);
    EXPECT_EQ(ranks.wait(2), 0);
  }
}

TEST(SetupProcess, EndsWhenARankDiesBetweenJoiningAndTheFirstOperation) {
  Processes ranks(2, [](const Rank& rank) {
    std::shared_ptr<Communicator> group;
    if (rank.number() == 1) {
      Dying bootstrap(rank.meeting("g"));
      static_cast<void>(Communicator::create(rank.spec("g", 1h), bootstrap, group));
      return;
    }
    const Status status = rank.try_join(rank.spec("g", 1h), group);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.culprit, 41) << status.message();
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

}  // namespace
}  // namespace customccl::test
