#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// What only looking at a tensor's memory tells.

namespace customccl::torch_shim {

// ValueError for a tensor with elements and no memory, as a fake one or one whose storage was freed, or with less than they take:
// torch makes storages smaller below their tensors, and a resize_() that fails leaves the new sizes.
void check_memory(const at::Tensor& tensor);

// Whether `count` elements of `element` bytes, from byte `begin` on, take more than the storage has.
inline bool reach_beyond(const c10::Storage& storage, std::size_t begin, std::size_t count, std::size_t element) {
  std::size_t bytes = 0;
  return __builtin_mul_overflow(count, element, &bytes) || begin + bytes > storage.nbytes();
}

// Whether two of its elements share memory, as in an expanded tensor.
bool overlaps_itself(const at::Tensor& tensor);

// Whether `whole` has as many elements as so many of `part`.
inline bool is_many(const at::Tensor& whole, const at::Tensor& part, int ranks) {
  std::int64_t wanted = 0;  // a view can count more elements than 64 bits can when they are multiplied
  return !__builtin_mul_overflow(part.numel(), std::int64_t{ranks}, &wanted) && whole.numel() == wanted;
}

}  // namespace customccl::torch_shim
