#pragma once

#include <array>
#include <new>
#include <span>

#include "base/call.h"
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
static_assert(kTraffic.size() == kOps.size());

// One of the two buffers of a call, as this rank uses it.
struct Buffer {
  const char* name;  // "send" or "recv", for messages
  const void* data;
  Use use;
  const std::size_t* counts;  // of all ranks, or nullptr: `count` each
  std::size_t count;
  DType dtype;
};

// The view of a buffer of use kNone (no view: `out` stays), kWhole or kOwn.
Status view_one(const Buffer& buffer, Op op, int rank, View& out);
// The views of a buffer of use kAll.
Status view_all(const Buffer& buffer, Op op, int size, Blocks& out);

}  // namespace customccl::capi
