#include "engines/shm/fingerprint.h"

#include <bit>

namespace customccl::shm {

namespace {

class Hash {
 public:
  void add(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15;
    state_ ^= state_ >> 29;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3;
};

// In 32 bits: roots are below kMaxMembers.
std::uint64_t kind_of(const Call& call) {
  return static_cast<std::uint64_t>(call.root) << 24 | static_cast<std::uint64_t>(call.reduce_op) << 16 |
         static_cast<std::uint64_t>(call.dtype) << 8 | static_cast<std::uint64_t>(call.op);
}

std::uint64_t layout(std::size_t chunk, const Room& room) { return chunk ^ std::rotl(room.bytes, 32); }
std::uint64_t layout(const Outgoing& outgoing) { return layout(outgoing.chunk, outgoing.room); }

// Of counts that one call does not tell nothing is added: they are compared.
void add_personal(Hash& hash, const PairCounts& pairs) {
  if (!pairs.told()) return hash.add(~std::uint64_t{0});
  if (!pairs.of_two()) {
    hash.add(layout(pairs.outgoing(0)));
    return hash.add(pairs.uniform_count());
  }
  for (int from = 0; from < 2; ++from) {
    if (!pairs.sends(from)) continue;
    hash.add(layout(pairs.outgoing(from)));
    hash.add(pairs.sent(from, 1 - from));
  }
}

}  // namespace

// How a call is cut up follows from its counts and from what the members have agreed on. It is in here all the same: ranks that cut it
// differently, for whatever reason, hear of that before they read anything.
std::uint64_t fingerprint(const Operation& op, const PairCounts& pairs) {
  const Call& call = *op.call;
  Hash hash;
  hash.add(op.sequence << 32 ^ kind_of(call));
  if (is_personal(call.op)) [[unlikely]] {
    add_personal(hash, pairs);
    return hash.value();
  }
  hash.add(layout(op.chunk, op.room));
  if (call.op == Op::kAllGather) {
    for (const View& view : call.outputs) hash.add(view.count);
  } else if (call.op == Op::kReduceScatter) {
    for (const View& view : call.inputs) hash.add(view.count);
  } else if (!call.inputs.empty()) {
    hash.add(call.inputs[0].count);
  } else if (!call.outputs.empty()) {
    hash.add(call.outputs[0].count);
  }
  return hash.value();
}

bool same_but_counts(const CallRecord& a, const CallRecord& b) {
  return a.sequence == b.sequence && a.root == b.root && a.op == b.op && a.dtype == b.dtype &&
         a.reduce_op == b.reduce_op;
}

}  // namespace customccl::shm
