#pragma once

#include <functional>
#include <vector>

#include "engines/engine.h"

namespace customccl::test {

// Does what a test says, and counts.
class ScriptedEngine final : public Engine {
 public:
  Step start(Operation&, Status& failure) override {
    ++starts;
    if (on_start.ok()) return Step::kMoved;
    failure = on_start;
    return Step::kFailed;
  }
  Step advance(Operation& op, Status&) override {
    ++advances;
    if (advanced) advanced(op);
    return next;
  }
  Status diagnose(const Operation&) override { return diagnosed ? diagnosed() : Status{}; }
  std::vector<int> awaited(const Operation&) const override { return {0}; }
  void fail(const Status&) override {}
  void abandon() noexcept override { ++abandons; }

  Status on_start;
  Step next = Step::kWaiting;
  std::function<Status()> diagnosed;
  std::function<void(Operation&)> advanced;
  int starts = 0;
  int advances = 0;
  int abandons = 0;
};

}  // namespace customccl::test
