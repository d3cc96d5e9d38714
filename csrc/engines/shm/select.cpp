#include "engines/shm/algorithm.h"
#include "platform/settings.h"

// Which algorithm carries out a call. Every rank must choose alike, so only what the fingerprint covers may be looked at.

namespace customccl::shm {

namespace {

const Algorithm& select_reduce(const Context& context, const Call& call) {
  const std::size_t bytes = count_of(call.inputs) * size_of(call.dtype);
  if (bytes <= kInlineBytes) return kInlineReduce;
  // Every rank reads everything in one shot, so the limit shrinks as the group grows.
  const std::size_t limit = settings().one_shot_bytes * 2 / static_cast<std::size_t>(context.size());
  if (bytes <= limit && bytes <= context.staging.slot_bytes()) return kOneShotReduce;
  return call.op == Op::kReduceScatter ? kReduceScatter : kTwoShotReduce;
}

const Algorithm& select_multicast(const Call& call) {
  std::size_t longest = 0;
  for (const View& view : call.inputs) longest = std::max(longest, view.count);
  for (const View& view : call.outputs) longest = std::max(longest, view.count);
  return longest * size_of(call.dtype) <= kInlineBytes ? kInlineMulticast : kMulticast;
}

}  // namespace

const Algorithm& select(const Context& context, const Call& call) {
  switch (call.op) {
    case Op::kAllReduce:
    case Op::kReduce:
    case Op::kReduceScatter: return select_reduce(context, call);
    case Op::kBroadcast:
    case Op::kAllGather: return select_multicast(call);
    case Op::kGather:
    case Op::kScatter:
    case Op::kAllToAll: return kPersonal;
    case Op::kBarrier:
    case Op::kSend:
    case Op::kRecv: break;
  }
  return kBarrier;
}

}  // namespace customccl::shm
