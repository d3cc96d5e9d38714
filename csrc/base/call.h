#pragma once

#include <chrono>
#include <complex>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/op.h"
#include "base/reduce_op.h"
#include "base/view.h"

namespace customccl {

inline constexpr int kAnySource = -1;

// One operation as a plain value: built by the adapters (c10d, C ABI), carried out by an engine. It owns nothing; whoever
// built it keeps views and memory alive until the operation is done.
//
// Views per operation, n = size of the group, r = this rank:
//   all_reduce      inputs {1}         outputs {1}          equal counts; may be the same memory
//   reduce          inputs {1}         outputs {1} on root, {} elsewhere
//   broadcast       inputs {1} on root, {} elsewhere        outputs {1} elsewhere, {} on root
//   all_gather      inputs {1}         outputs {n}          outputs[i].count is rank i's input count
//   reduce_scatter  inputs {n}         outputs {1}          inputs[i].count is rank i's output count
//   gather          inputs {1}         outputs {n} on root, {} elsewhere
//   scatter         inputs {n} on root, {} elsewhere        outputs {1}
//   all_to_all      inputs {n}         outputs {n}          inputs[i] goes to rank i
//   barrier         none
//   send            inputs {1}, peer = destination          recv: outputs {1}, peer = source or kAnySource
//   send, parcel    inputs {k} of bytes; inputs[0] travels ahead of the others
//   recv, parcel    none: takes what comes, of any size. Then once more for the rest of a large one: outputs {k} of bytes
// An input may lie exactly on the output it corresponds to (in place); other overlaps are the caller's error.
struct Call {
  Op op = Op::kBarrier;
  DType dtype = DType::kUInt8;
  ReduceOp reduce_op = ReduceOp::kSum;    // stays so where nothing is reduced
  int root = 0;                           // rank in the group: root of rooted operations; stays 0 in others
  int peer = kAnySource;                  // rank in the group: partner of send and recv
  std::int64_t tag = 0;                   // send and recv only
  bool parcel = false;                    // send and recv: the receiver does not know the size (core/parcels.cpp)
  std::complex<double> factor{1.0, 0.0};  // PREMUL_SUM only: this rank's factor
  std::span<const View> inputs;
  std::span<const View> outputs;
  std::chrono::nanoseconds timeout{0};  // zero: the group's
};

// The barriers of suspend() and resume() (core/suspension.cpp). Their dtype, which a barrier has no other use for, keeps them from being
// taken for a user's barrier.
enum class SuspensionStep : std::uint8_t {
  kSuspend = static_cast<std::uint8_t>(DType::kInt8),
  kResume = static_cast<std::uint8_t>(DType::kInt16),
};

}  // namespace customccl
