#pragma once

#include <algorithm>
#include <chrono>

namespace customccl {

using Clock = std::chrono::steady_clock;
using Nanos = std::chrono::nanoseconds;

// The limit that a caller gave. INT64_MAX milliseconds mean "for ever"; a century is as good, and does not overflow when counted in
// nanoseconds.
inline Nanos to_limit(std::chrono::milliseconds given) {
  constexpr std::chrono::milliseconds kCentury = std::chrono::hours(100 * 365 * 24);
  return std::min(given, kCentury);
}

// A point in time that a wait must not pass. Remembers when it began and the limit, for error messages.
class Deadline {
 public:
  explicit Deadline(Nanos limit) : begin_(Clock::now()), limit_(limit) {}
  // Does not run before start(): reading the clock takes as long as a flag takes to cross.
  static Deadline stopped(Nanos limit) { return {Clock::time_point{}, limit}; }
  void start() { begin_ = Clock::now(); }
  bool passed() const { return elapsed() >= limit_; }
  Nanos elapsed() const {
    if (begin_ == Clock::time_point{}) return Nanos(0);
    return std::chrono::duration_cast<Nanos>(Clock::now() - begin_);
  }
  Nanos left() const { return limit_ - elapsed(); }
  Nanos limit() const { return limit_; }

 private:
  Deadline(Clock::time_point begin, Nanos limit) : begin_(begin), limit_(limit) {}

  Clock::time_point begin_;
  Nanos limit_;
};

}  // namespace customccl
