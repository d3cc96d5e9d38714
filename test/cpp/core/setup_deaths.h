#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "support/ranks.h"

// What tests of ranks that die while a group is made have in common.

namespace customccl::test {

// Puts its record like everybody, and dies where it would read the others'.
class Dying final : public Bootstrap {
 public:
  explicit Dying(std::unique_ptr<Bootstrap> honest) : honest_(std::move(honest)) {}
  Status put(const std::string& key, const std::string& value) override { return honest_->put(key, value); }
  Status get(const std::string&, const Deadline&, std::string&) override { ::_exit(0); }

 private:
  std::unique_ptr<Bootstrap> honest_;
};

// Rank `number` has ended, as the test has seen.
inline void wait_for_end_of(const Rank& rank, int number) {
  std::string ignored;
  EXPECT_TRUE(rank.meeting("ended")->get(std::to_string(number), Deadline(std::chrono::hours(1)), ignored).ok());
}
inline void tell_end_of(Processes& ranks, int number) {
  ranks.wait(number);
  EXPECT_TRUE(ranks.onlooker().meeting("ended")->put(std::to_string(number), "").ok());
}

inline void tell(const Rank& rank, const std::string& what) { EXPECT_TRUE(rank.meeting(what)->put("told", "").ok()); }

inline void expect_that_it_died(const Status& status, int culprit) {
  EXPECT_EQ(status.code, Code::kPeerDied) << status.message();
  EXPECT_EQ(status.culprit, culprit) << status.message();
  EXPECT_NE(status.message().find("rank " + std::to_string(culprit)), std::string::npos) << status.message();
}

}  // namespace customccl::test
