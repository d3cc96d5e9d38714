#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "c10d/parcel_format.h"

namespace customccl::torch_shim {

// Throws ValueError: a message is not what a sender of ours makes.
[[noreturn]] void garbled(const char* what);

inline void check_parcel(bool good, const char* what) {
  if (!good) [[unlikely]] {
    garbled(what);
  }
}

// A tensor as the header tells it. Its strides are those of a dense one.
struct TensorRecord {
  c10::ScalarType type;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::uint64_t bytes;
};

// Reads the header of an arrived message from front to end. Nothing in it is trusted: what does not fit throws.
class ParcelReader {
 public:
  explicit ParcelReader(std::span<const std::byte> header) : left_(header) {}

  std::size_t left() const { return left_.size(); }
  const std::byte* raw(std::uint64_t bytes);
  Mark mark() { return static_cast<Mark>(*raw(1)); }
  std::uint64_t number();
  // Of things that take at least a byte each.
  std::uint64_t count();
  // Behind its mark.
  TensorRecord tensor();

 private:
  std::span<const std::byte> left_;
};

}  // namespace customccl::torch_shim
