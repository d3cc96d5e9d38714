#include <algorithm>

#include "engines/shm/algorithm.h"
#include "platform/cpu.h"

// Which algorithm carries out a call. Every rank must choose alike, so only what the fingerprint covers, and what the members have agreed
// on, may be looked at.

namespace customccl::shm {

namespace {

// Adding a pair of elements takes longer than moving them.
bool adds_slowly(DType dtype) {
  const DTypeInfo& type = info(dtype);
  return type.kind == DTypeKind::kComplex || (type.kind == DTypeKind::kFloating && type.size < sizeof(float));
}

// Bytes up to which all_reduce and reduce take one shot.
std::size_t one_shot_limit(const Context& context, DType dtype) {
  const std::size_t slot = context.staging.slot_bytes();
  // Everybody reads everything and adds everything, so the limit shrinks as the group grows. Where ranks share processors, a second
  // wait is one for their turn.
  const std::size_t in_all = context.members.one_shot_bytes() * (context.members.enough_processors() ? 1 : 4);
  const std::size_t limit = std::min(in_all / static_cast<std::size_t>(context.size()), slot);
  if (context.size() != 2) return limit;
  // Two ranks read no more in one shot than in two: what counts is one wait less, and later the adding done twice. It pays up to what
  // they exchange (staging.h); where they do not, more than half of that was not measured.
  return std::max(limit, slot / (adds_slowly(dtype) ? 16 : readers_own_lines() ? 2 : 4));
}

[[gnu::noinline]] const Algorithm& select_staged_reduce(const Context& context, const Call& call, std::size_t bytes) {
  if (call.op == Op::kReduceScatter) return kReduceScatter;
  return bytes <= one_shot_limit(context, call.dtype) ? kOneShotReduce : kTwoShotReduce;
}

const Algorithm& select_reduce(const Context& context, const Call& call) {
  const std::size_t bytes = count_of(call.inputs) * size_of(call.dtype);
  return bytes <= kInlineBytes ? kInlineReduce : select_staged_reduce(context, call, bytes);
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
    [[likely]] case Op::kAllReduce:
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
