#pragma once

#include <chrono>

namespace customccl {

using Clock = std::chrono::steady_clock;
using Nanos = std::chrono::nanoseconds;

// A point in time that a wait must not pass. Remembers when it began and the limit, for error messages.
class Deadline {
 public:
  explicit Deadline(Nanos limit) : begin_(Clock::now()), limit_(limit) {}
  bool passed() const { return elapsed() >= limit_; }
  Nanos elapsed() const { return std::chrono::duration_cast<Nanos>(Clock::now() - begin_); }
  Nanos left() const { return limit_ - elapsed(); }
  Nanos limit() const { return limit_; }

 private:
  Clock::time_point begin_;
  Nanos limit_;
};

}  // namespace customccl
