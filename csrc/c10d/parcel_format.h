#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

// A message of Python values and tensors, as bytes. Both ends are processes of one machine, with one byte order and (checked by the version)
// one format.
//
//   preface | header | pad | run 0 | pad | run 1 | pad | ...
//
// The header is the value, depth first: a mark for the kind, then what that kind needs; counts and integers are variable-length numbers. What
// is long (the elements of tensors, bytes, buffers of pickles) lies in the runs, in the order in which the header mentions it. Every run begins
// at a multiple of kRunAlignment.

namespace customccl::torch_shim {

static_assert(std::endian::native == std::endian::little, "the same on all ranks of a machine");

enum class Mark : std::uint8_t {
  kNone,
  kFalse,
  kTrue,
  kInt,         // zigzag
  kBigInt,      // count, bytes: two's complement
  kFloat,       // 8 bytes
  kComplex,     // 16 bytes
  kStr,         // count, UTF-8
  kBytes,       // count, bytes
  kBytesApart,  // count; a run. Not in keys of dicts or in sets: they are hashed before runs arrive
  kByteArray,   // count; a run
  kList,        // count, values
  kTuple,
  kSet,
  kFrozenSet,
  kDict,    // count, keys and values by turns
  kTensor,  // dtype, device type, device index + 1, dimensions, sizes, 1 and strides or 0; a run
  kPickle,  // name of the type, pickle, count of buffers, their counts of bytes, count of tensors, tensors; runs
};

inline constexpr std::uint32_t kParcelMagic = 0x63636c6d;
inline constexpr std::uint8_t kParcelVersion = 1;
inline constexpr std::size_t kRunAlignment = 16;
inline constexpr std::size_t kApart = 4096;  // bytes objects from this size on are runs

struct Preface {
  std::uint32_t magic = kParcelMagic;
  std::uint8_t version = kParcelVersion;
  // Read in one piece before it is decoded: the header did not fit into the head, or there are pickles in it.
  std::uint8_t whole = 0;
  std::uint16_t unused = 0;
  std::uint64_t header_bytes = 0;
};
static_assert(sizeof(Preface) == kRunAlignment);

constexpr std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kRunAlignment - 1) / kRunAlignment * kRunAlignment;
}

}  // namespace customccl::torch_shim
