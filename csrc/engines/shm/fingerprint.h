#pragma once

#include <cstdint>

#include "engines/operation.h"
#include "engines/shm/control_block.h"
#include "engines/shm/pair_counts.h"

namespace customccl::shm {

// A number that is the same on two ranks when they called the same thing, and else (but once in 2^64) is not: operation,
// element type, reduce operation, root, counts and place in the group's order.
[[gnu::hot]] std::uint64_t fingerprint(const Operation& op, const PairCounts& pairs);

// Operations whose counts belong to pairs of ranks.
constexpr bool is_personal(Op op) { return op == Op::kAllToAll || op == Op::kGather || op == Op::kScatter; }

// Whether two records differ only in counts.
bool same_but_counts(const CallRecord& a, const CallRecord& b);

}  // namespace customccl::shm
