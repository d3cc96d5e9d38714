#include "capi/buffers.h"

#include <string>

#include "capi/error.h"

namespace customccl::capi {

Status refuse(Buffer buffer, std::size_t count) {
  const std::string elements = std::to_string(count) + " elements";
  const bool too_many = count > most_elements(buffer.dtype());
  return invalid(buffer.name() + (too_many ? " would have " + elements + ", more than there is address space"
                                           : " is NULL, for " + elements));
}

Status view_all(Buffer buffer, int size, Blocks& out) {
  // The views are written to memory that could be the call's, for all that the compiler knows.
  const std::size_t* const counts = buffer.counts();
  const std::size_t equal = buffer.count();
  std::byte* const data = buffer.data();
  std::size_t left = most_elements(buffer.dtype());
  std::size_t first = 0;
  for (int i = 0; i < size; ++i) {
    const std::size_t count = counts != nullptr ? counts[i] : equal;
    if (count > left)
      return invalid(buffer.name() + " would have more elements than there is address space: check the counts");
    out.add({data, nullptr, first, count});
    first += count;
    left -= count;
  }
  if (data == nullptr && first != 0) return refuse(buffer, first);
  return {};
}

}  // namespace customccl::capi
