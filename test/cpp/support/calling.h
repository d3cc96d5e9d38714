#pragma once

#include <functional>

#include "core/task.h"

namespace customccl::test {

// Tells when it is over.
class Calling final : public Task {
 public:
  Calling(const Call& call, std::function<void()> then) : Task(call, std::chrono::hours(1)), then_(std::move(then)) {}
  void completed() override { then_(); }

 private:
  std::function<void()> then_;
};

}  // namespace customccl::test
