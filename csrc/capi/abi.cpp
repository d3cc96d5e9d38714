#include <cstddef>

#include "base/build_info.h"
#include "base/dtype.h"
#include "base/op.h"
#include "base/reduce_op.h"
#include "base/status.h"
#include "capi/customccl.h"
#include "engines/shm/geometry.h"

// The numbers and layouts of customccl.h are a promise to compiled programs. Here they are tied to the enums inside: whoever reorders
// those must keep these, by a table in between.

namespace customccl {

namespace {

template <class Enum>
constexpr bool same(Enum inside, int outside) {
  return static_cast<int>(inside) == outside;
}

static_assert(same(Code::kOk, CUSTOMCCL_OK));
static_assert(same(Code::kInvalidArgument, CUSTOMCCL_INVALID_ARGUMENT));
static_assert(same(Code::kMismatch, CUSTOMCCL_MISMATCH));
static_assert(same(Code::kTimeout, CUSTOMCCL_TIMEOUT));
static_assert(same(Code::kPeerDied, CUSTOMCCL_PEER_DIED));
static_assert(same(Code::kPeerLeft, CUSTOMCCL_PEER_LEFT));
static_assert(same(Code::kAborted, CUSTOMCCL_ABORTED));
static_assert(same(Code::kClosed, CUSTOMCCL_CLOSED));
static_assert(same(Code::kUnreachable, CUSTOMCCL_UNREACHABLE));
static_assert(same(Code::kSystem, CUSTOMCCL_SYSTEM));

static_assert(same(Op::kAllReduce, CUSTOMCCL_ALL_REDUCE));
static_assert(same(Op::kReduce, CUSTOMCCL_REDUCE));
static_assert(same(Op::kBroadcast, CUSTOMCCL_BROADCAST));
static_assert(same(Op::kAllGather, CUSTOMCCL_ALL_GATHER));
static_assert(same(Op::kReduceScatter, CUSTOMCCL_REDUCE_SCATTER));
static_assert(same(Op::kGather, CUSTOMCCL_GATHER));
static_assert(same(Op::kScatter, CUSTOMCCL_SCATTER));
static_assert(same(Op::kAllToAll, CUSTOMCCL_ALL_TO_ALL));
static_assert(same(Op::kBarrier, CUSTOMCCL_BARRIER));
static_assert(same(Op::kSend, CUSTOMCCL_SEND));
static_assert(same(Op::kRecv, CUSTOMCCL_RECV));
static_assert(kOps.size() == CUSTOMCCL_RECV + 1, "give the new operation its number in customccl.h");

static_assert(same(DType::kBool, CUSTOMCCL_BOOL));
static_assert(same(DType::kUInt8, CUSTOMCCL_UINT8));
static_assert(same(DType::kInt8, CUSTOMCCL_INT8));
static_assert(same(DType::kUInt16, CUSTOMCCL_UINT16));
static_assert(same(DType::kInt16, CUSTOMCCL_INT16));
static_assert(same(DType::kUInt32, CUSTOMCCL_UINT32));
static_assert(same(DType::kInt32, CUSTOMCCL_INT32));
static_assert(same(DType::kUInt64, CUSTOMCCL_UINT64));
static_assert(same(DType::kInt64, CUSTOMCCL_INT64));
static_assert(same(DType::kFloat16, CUSTOMCCL_FLOAT16));
static_assert(same(DType::kBFloat16, CUSTOMCCL_BFLOAT16));
static_assert(same(DType::kFloat32, CUSTOMCCL_FLOAT32));
static_assert(same(DType::kFloat64, CUSTOMCCL_FLOAT64));
static_assert(same(DType::kComplex64, CUSTOMCCL_COMPLEX64));
static_assert(same(DType::kComplex128, CUSTOMCCL_COMPLEX128));
static_assert(same(DType::kFloat8E4M3FN, CUSTOMCCL_FLOAT8_E4M3FN));
static_assert(same(DType::kFloat8E4M3FNUZ, CUSTOMCCL_FLOAT8_E4M3FNUZ));
static_assert(same(DType::kFloat8E5M2, CUSTOMCCL_FLOAT8_E5M2));
static_assert(same(DType::kFloat8E5M2FNUZ, CUSTOMCCL_FLOAT8_E5M2FNUZ));
static_assert(same(DType::kFloat8E8M0FNU, CUSTOMCCL_FLOAT8_E8M0FNU));
static_assert(same(DType::kFloat4E2M1FNX2, CUSTOMCCL_FLOAT4_E2M1FN_X2));
static_assert(kDTypes.size() == CUSTOMCCL_FLOAT4_E2M1FN_X2 + 1, "give the new dtype its number in customccl.h");

static_assert(same(ReduceOp::kSum, CUSTOMCCL_SUM));
static_assert(same(ReduceOp::kProduct, CUSTOMCCL_PRODUCT));
static_assert(same(ReduceOp::kMin, CUSTOMCCL_MIN));
static_assert(same(ReduceOp::kMax, CUSTOMCCL_MAX));
static_assert(same(ReduceOp::kAvg, CUSTOMCCL_AVG));
static_assert(same(ReduceOp::kBand, CUSTOMCCL_BAND));
static_assert(same(ReduceOp::kBor, CUSTOMCCL_BOR));
static_assert(same(ReduceOp::kBxor, CUSTOMCCL_BXOR));
static_assert(same(ReduceOp::kPremulSum, CUSTOMCCL_PREMUL_SUM));
static_assert(kReduceOpNames.size() == CUSTOMCCL_PREMUL_SUM + 1, "give the new reduce op its number in customccl.h");

static_assert(CUSTOMCCL_MAX_RANKS == shm::kMaxMembers);

static_assert(sizeof(customccl_token) == 256);
static_assert(sizeof(customccl_options) == 40 && offsetof(customccl_options, global_ranks) == 32);
static_assert(sizeof(customccl_call) == 112);
static_assert(offsetof(customccl_call, op) == 8 && offsetof(customccl_call, flags) == 28);
static_assert(offsetof(customccl_call, tag) == 32 && offsetof(customccl_call, send) == 40);
static_assert(offsetof(customccl_call, count) == 56 && offsetof(customccl_call, timeout_ms) == 80);
static_assert(offsetof(customccl_call, factor) == 88 && offsetof(customccl_call, source) == 104);

}  // namespace

}  // namespace customccl

const char* customccl_version(void) { return customccl::kVersion.data(); }

size_t customccl_dtype_size(customccl_dtype dtype) {
  if (dtype < 0 || static_cast<std::size_t>(dtype) >= customccl::kDTypes.size()) return 0;
  return customccl::kDTypes[static_cast<std::size_t>(dtype)].size;
}
