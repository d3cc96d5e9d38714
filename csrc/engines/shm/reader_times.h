#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engines/shm/members.h"
#include "engines/shm/store_policy.h"
#include "platform/clock.h"

namespace customccl::shm {

// What data costs that one rank writes and others read, all together, for the writer's store policy.
//
// A rank that only writes is off before anybody has read. So now and then it asks, by its flag (Line::asks()). Each peer sees that when it
// has reached the turn, takes the time of its part from there on, and tells it at the end of the operation. The writer finds the answers
// when it stages for a later operation of that kind; until then it asks nothing else.
//
// ControlBlock::told is written by its rank and read by all, one word with the turn and the time in it: nothing else is meant by it, so no
// order matters. Where two ranks ask about different operations, the later answer replaces the earlier; who finds that forgets.
class ReaderTimes {
 public:
  explicit ReaderTimes(Members& members) : members_(members) {}

  bool waits() const { return policy_ != nullptr; }
  // About what this rank has just written for `turn`, by a kind of store that `policy` chose; that took `own`.
  void ask(std::uint64_t turn, StorePolicy& policy, StorePolicy::Kind kind, Store store, std::size_t bytes, Nanos own);
  // Tells the policy, if everybody has answered.
  void look();

  // Whether any peer asks about what it has written for a turn, which was reached.
  bool asked(std::uint64_t turn) const;
  // Nothing: something else took the time.
  void tell(std::uint64_t turn, std::optional<Nanos> took);

 private:
  static constexpr int kTimeBits = 40;
  static constexpr std::uint64_t kNothing = (std::uint64_t{1} << kTimeBits) - 1;
  static constexpr std::uint64_t kTurns = std::uint64_t{1} << (64 - kTimeBits);

  Members& members_;
  // What was asked.
  StorePolicy* policy_ = nullptr;
  StorePolicy::Kind kind_{};
  std::uint64_t turn_ = 0;
  Store store_ = Store::kPlain;
  std::size_t bytes_ = 0;
  Nanos own_{0};
};

}  // namespace customccl::shm
