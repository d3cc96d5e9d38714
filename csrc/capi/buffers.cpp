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
  std::size_t left = most_elements(buffer.dtype());
  std::size_t first = 0;
  for (int i = 0; i < size; ++i) {
    const std::size_t count = buffer.count_of(i);
    if (count > left)
      return invalid(buffer.name() + " would have more elements than there is address space: check the counts");
    out.add({buffer.data(), nullptr, first, count});
    first += count;
    left -= count;
  }
  if (buffer.data() == nullptr && first != 0) return refuse(buffer, first);
  return {};
}

}  // namespace customccl::capi
