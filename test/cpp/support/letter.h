#pragma once

#include <cstdint>
#include <string>

#include "platform/clock.h"
#include "support/checked.h"
#include "support/pattern.h"
#include "support/tensor.h"

namespace customccl::test {

// One end of a message. `seed` makes the values: the same at both ends of one message.
class Letter final : public Checked {
 public:
  Letter(Op op, DType dtype, std::size_t count, Shape shape, std::uint64_t seed, int peer, std::int64_t tag)
      : pattern_(dtype, seed, count), tensor_(dtype, count, shape), view_(tensor_.view()) {
    call_.op = op;
    call_.dtype = dtype;
    call_.peer = peer;
    call_.tag = tag;
    (op == Op::kSend ? call_.inputs : call_.outputs) = {&view_, 1};
    if (op == Op::kSend) tensor_.write(pattern_);
  }
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;

  void set_timeout(Nanos timeout) { call_.timeout = timeout; }
  const Call& call() const override { return call_; }
  std::string verify() const override {
    const std::int64_t wrong = pattern_.first_difference(tensor_.elements());
    if (wrong >= 0)
      return "the message with tag " + std::to_string(call_.tag) + " is wrong from element " + std::to_string(wrong);
    return tensor_.poison_intact() ? "" : "memory around the message was written";
  }

 private:
  Pattern pattern_;
  Tensor tensor_;
  View view_;
  Call call_;
};

inline constexpr std::size_t kSmall = 10;         // within the packet
inline constexpr std::size_t kLarge = 1'000'000;  // asks first, then comes in pieces

inline Letter plain(Op op, std::size_t count, std::uint64_t seed, int peer, std::int64_t tag) {
  return {op, DType::kInt32, count, Shape::kPlain, seed, peer, tag};
}

}  // namespace customccl::test
