#pragma once

#include <cstddef>
#include <memory>

#include "base/cache_line.h"
#include "base/call.h"
#include "kernels/reduce.h"
#include "kernels/strided.h"

namespace customccl {

// A block of private memory for what must lie consecutively for a moment: strided inputs, scaled inputs. Small enough to
// stay in the first-level cache.
class Scratch {
 public:
  static constexpr std::size_t kBytes = 16 << 10;

  std::byte* input() { return block(0); }
  std::byte* output() { return block(1); }
  // For what is read in other processes: kReadBytes. Stays in the second-level cache.
  std::byte* read() {
    if (read_ == nullptr) read_ = std::make_unique_for_overwrite<std::byte[]>(kReadBytes);
    return read_.get();
  }
  static constexpr std::size_t kReadBytes = 128 << 10;

 private:
  std::byte* block(std::size_t index) {
    if (memory_ == nullptr) memory_ = std::make_unique<std::byte[]>(2 * kBytes + kCacheLine);
    auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    address = (address + kCacheLine - 1) / kCacheLine * kCacheLine;
    return reinterpret_cast<std::byte*>(address) + index * kBytes;
  }
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<std::byte[]> read_;
};

inline bool scaled(const Call& call) { return call.reduce_op == ReduceOp::kPremulSum; }

// Whether an input can be read where it is: it lies consecutively and needs no factor.
inline bool ready(const Call& call, const View& view) { return view.contiguous() && !scaled(call); }

// Copies elements [first, first + count) of an input to consecutive memory at dst, times the factor for PREMUL_SUM.
inline void stage(std::byte* dst, const Call& call, const View& view, std::size_t first, std::size_t count, Store store,
                  Origin origin = Origin::kCache) {
  const std::size_t element = size_of(call.dtype);
  if (!scaled(call)) return pack(dst, view, first, count, element, store, origin);
  if (view.contiguous()) return scale(dst, view.at(first, element), count, call.dtype, call.factor);
  pack(dst, view, first, count, element, Store::kPlain);
  scale(dst, dst, count, call.dtype, call.factor);
}

// The same elements, where they are when they are ready, else staged into `scratch`.
inline const std::byte* consecutive(std::byte* scratch, const Call& call, const View& view, std::size_t first,
                                    std::size_t count) {
  if (ready(call, view)) return view.at(first, size_of(call.dtype));
  stage(scratch, call, view, first, count, Store::kPlain);
  return scratch;
}

}  // namespace customccl
