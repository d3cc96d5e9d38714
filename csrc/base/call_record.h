#pragma once

#include <cstdint>
#include <string>

#include "base/call.h"

namespace customccl {

// What was called, in a few words that fit into shared memory: for messages.
struct CallRecord {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  // elements, all blocks together
  std::int32_t root = 0;    // or the peer of send and recv
  Op op = Op::kBarrier;
  DType dtype = DType::kUInt8;
  ReduceOp reduce_op = ReduceOp::kSum;
};

inline CallRecord record_of(const Call& call, std::uint64_t sequence) {
  CallRecord record{sequence, 0, call.root, call.op, call.dtype, call.reduce_op};
  for (const View& view : call.inputs.size() >= call.outputs.size() ? call.inputs : call.outputs)
    record.count += view.count;
  return record;
}

inline std::string describe_barrier(const CallRecord& record) {
  switch (static_cast<SuspensionStep>(record.dtype)) {
    case SuspensionStep::kSuspend: return "of suspend()";
    case SuspensionStep::kResume: return "of resume()";
  }
  return "";
}

// "float32 x 1048576, SUM, root 0"; empty for a barrier of the user.
inline std::string describe_data(const CallRecord& record) {
  // The record may be a peer's: nothing in it is an index before it is checked.
  const bool known = static_cast<std::size_t>(record.op) < kOps.size() &&
                     static_cast<std::size_t>(record.dtype) < kDTypes.size() &&
                     static_cast<std::size_t>(record.reduce_op) < kReduceOpNames.size();
  if (!known) return "something this version does not know";
  if (record.op == Op::kBarrier) return describe_barrier(record);
  std::string text = std::string(name(record.dtype)) + " x " + std::to_string(record.count);
  if (info(record.op).reduces) text += ", " + std::string(name(record.reduce_op));
  if (info(record.op).has_root) text += ", root " + std::to_string(record.root);
  return text;
}

// "all_reduce #41"
inline std::string describe_op(const CallRecord& record) {
  const bool known = static_cast<std::size_t>(record.op) < kOps.size();
  return (known ? std::string(name(record.op)) : "unknown operation") + " #" + std::to_string(record.sequence);
}

// "all_reduce #41 (float32 x 1048576, SUM)"
inline std::string describe(const CallRecord& record) {
  const std::string data = describe_data(record);
  return describe_op(record) + (data.empty() ? "" : " (" + data + ")");
}

}  // namespace customccl
