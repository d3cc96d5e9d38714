#include "capi/buffers.h"

#include <bit>
#include <limits>
#include <string>

#include "capi/error.h"

namespace customccl::capi {

namespace {

Status refuse(Op op, const Buffer& buffer, const std::string& why) {
  return invalid(std::string(name(op)) + ": " + buffer.name + " " + why);
}

// A bound on the elements that memory can hold, without a division: sizes of elements are powers of two.
std::size_t most_elements(DType dtype) {
  return static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) >> std::countr_zero(size_of(dtype));
}

std::byte* bytes_of(const Buffer& buffer) { return static_cast<std::byte*>(const_cast<void*>(buffer.data)); }

}  // namespace

Status view_one(const Buffer& buffer, Op op, int rank, View& out) {
  if (buffer.use == Use::kNone) return {};
  const bool own = buffer.use == Use::kOwn && buffer.counts != nullptr;
  const std::size_t count = own ? buffer.counts[rank] : buffer.count;
  if (count > most_elements(buffer.dtype)) {
    return refuse(op, buffer, "would have " + std::to_string(count) + " elements, more than there is address space");
  }
  if (buffer.data == nullptr && count != 0)
    return refuse(op, buffer, "is NULL, for " + std::to_string(count) + " elements");
  out = {bytes_of(buffer), nullptr, 0, count};
  return {};
}

Status view_all(const Buffer& buffer, Op op, int size, Blocks& out) {
  std::size_t left = most_elements(buffer.dtype);
  std::size_t first = 0;
  for (int i = 0; i < size; ++i) {
    const std::size_t count = buffer.counts != nullptr ? buffer.counts[i] : buffer.count;
    if (count > left)
      return refuse(op, buffer, "would have more elements than there is address space: check the counts");
    out.add({bytes_of(buffer), nullptr, first, count});
    first += count;
    left -= count;
  }
  if (buffer.data == nullptr && first != 0)
    return refuse(op, buffer, "is NULL, for " + std::to_string(first) + " elements");
  return {};
}

}  // namespace customccl::capi
