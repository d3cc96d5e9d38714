#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/in_order.h"

// The operations on a group, listed once.

namespace customccl {

enum class Op : std::uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
  kSend,
  kRecv,
};

struct OpInfo {
  Op op;
  std::string_view name;
  bool has_root;
  bool reduces;
};

// Hidden: where it need not be one table for the whole process, an entry is found without asking the linker's table for it.
[[gnu::visibility("hidden")]] inline constexpr std::array kOps{
    OpInfo{Op::kAllReduce, "all_reduce", false, true},
    OpInfo{Op::kReduce, "reduce", true, true},
    OpInfo{Op::kBroadcast, "broadcast", true, false},
    OpInfo{Op::kAllGather, "all_gather", false, false},
    OpInfo{Op::kReduceScatter, "reduce_scatter", false, true},
    OpInfo{Op::kGather, "gather", true, false},
    OpInfo{Op::kScatter, "scatter", true, false},
    OpInfo{Op::kAllToAll, "all_to_all", false, false},
    OpInfo{Op::kBarrier, "barrier", false, false},
    OpInfo{Op::kSend, "send", false, false},
    OpInfo{Op::kRecv, "recv", false, false},
};
static_assert(in_order(kOps, &OpInfo::op));

constexpr const OpInfo& info(Op op) { return kOps[static_cast<std::size_t>(op)]; }
constexpr std::string_view name(Op op) { return info(op).name; }
constexpr bool is_message(Op op) { return op == Op::kSend || op == Op::kRecv; }

}  // namespace customccl
