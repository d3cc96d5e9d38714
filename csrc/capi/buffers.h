#pragma once

#include <array>
#include <bit>
#include <limits>
#include <new>
#include <span>
#include <string>

#include "base/call.h"
#include "base/in_order.h"
#include "base/status.h"
#include "capi/customccl.h"
#include "engines/shm/geometry.h"

namespace customccl::capi {

// Views of a call with a block per rank, on the stack. The memory is not initialised: only the views of the ranks there are.
class Blocks {
 public:
  Blocks() {}  // NOLINT(modernize-use-equals-default): `= default` would let Blocks{} clear 8 KiB
  void add(const View& view) { new (memory_ + sizeof(View) * size_++) View(view); }
  std::span<const View> all() const { return {std::launder(reinterpret_cast<const View*>(memory_)), size_}; }

 private:
  alignas(View) std::byte memory_[sizeof(View) * shm::kMaxMembers];
  std::size_t size_ = 0;
};

// What an operation does with a buffer.
enum class Use : std::uint8_t {
  kNone,
  kWhole,  // `count` elements
  kOwn,    // the block of this rank
  kAll,    // a block per rank
};

// On the root and on the other ranks; alike where there is no root.
struct Traffic {
  Op op;
  Use send;
  Use recv;
  Use send_elsewhere;
  Use recv_elsewhere;
};

inline constexpr std::array kTraffic{
    Traffic{Op::kAllReduce, Use::kWhole, Use::kWhole, Use::kWhole, Use::kWhole},
    Traffic{Op::kReduce, Use::kWhole, Use::kWhole, Use::kWhole, Use::kNone},
    Traffic{Op::kBroadcast, Use::kWhole, Use::kNone, Use::kNone, Use::kWhole},
    Traffic{Op::kAllGather, Use::kOwn, Use::kAll, Use::kOwn, Use::kAll},
    Traffic{Op::kReduceScatter, Use::kAll, Use::kOwn, Use::kAll, Use::kOwn},
    Traffic{Op::kGather, Use::kOwn, Use::kAll, Use::kOwn, Use::kNone},
    Traffic{Op::kScatter, Use::kAll, Use::kOwn, Use::kNone, Use::kOwn},
    Traffic{Op::kAllToAll, Use::kAll, Use::kAll, Use::kAll, Use::kAll},
    Traffic{Op::kBarrier, Use::kNone, Use::kNone, Use::kNone, Use::kNone},
    Traffic{Op::kSend, Use::kWhole, Use::kNone, Use::kWhole, Use::kNone},
    Traffic{Op::kRecv, Use::kNone, Use::kWhole, Use::kNone, Use::kWhole},
};
static_assert(kTraffic.size() == kOps.size() && in_order(kTraffic, &Traffic::op));

// One of the two buffers of a call whose op and dtype have been checked, as this rank uses it.
class Buffer {
 public:
  enum Side : bool { kSend, kRecv };
  Buffer(const customccl_call& call, Side side, Use use) : call_(call), side_(side), use_(use) {}

  Use use() const { return use_; }
  DType dtype() const { return static_cast<DType>(call_.dtype); }
  std::byte* data() const {
    return static_cast<std::byte*>(side_ == kRecv ? call_.recv : const_cast<void*>(call_.send));
  }
  // Elements of each rank's block; nullptr: all have count().
  const std::size_t* counts() const {
    return side_ == kRecv && op() == Op::kAllToAll ? call_.recv_counts : call_.counts;
  }
  // Elements of the rank's block.
  std::size_t count_of(int rank) const { return counts() != nullptr ? counts()[rank] : count(); }
  std::size_t count() const { return call_.count; }

  // "all_reduce: send"
  std::string name() const { return std::string(customccl::name(op())) + (side_ == kRecv ? ": recv" : ": send"); }

 private:
  Op op() const { return static_cast<Op>(call_.op); }

  const customccl_call& call_;
  Side side_;
  Use use_;
};

// A bound on the elements that memory can hold, without a division: sizes of elements are powers of two.
inline std::size_t most_elements(DType dtype) {
  return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) >> std::countr_zero(size_of(dtype));
}

// Why a buffer cannot be one of `count` elements.
[[gnu::cold]] Status refuse(Buffer buffer, std::size_t count);

// The view of a buffer of use kNone (no view: `out` stays), kWhole or kOwn.
inline Status view_one(Buffer buffer, int rank, View& out) {
  if (buffer.use() == Use::kNone) return {};
  const std::size_t count = buffer.use() == Use::kOwn ? buffer.count_of(rank) : buffer.count();
  std::byte* data = buffer.data();
  if (count > most_elements(buffer.dtype()) || (data == nullptr && count != 0)) return refuse(buffer, count);
  out = {data, nullptr, 0, count};
  return {};
}
// The views of a buffer of use kAll.
[[gnu::hot]] Status view_all(Buffer buffer, int size, Blocks& out);

}  // namespace customccl::capi
