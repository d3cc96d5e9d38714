#include "engines/shm/take.h"

#include <algorithm>

namespace customccl::shm {

void take_across(const Context& context, const View& output, std::size_t first, std::size_t count, Staged from,
                 std::size_t element) {
  if (output.contiguous()) {
    return context.shown.read(from, output.at(first, element), count * element);
  }
  const std::size_t block = Scratch::kReadBytes / element;
  for (std::size_t done = 0; done < count; done += block) {
    const std::size_t part = std::min(block, count - done);
    std::byte* read = context.scratch.read();
    context.shown.read(from + done * element, read, part * element);
    unpack(output, first + done, part, read, element, Store::kPlain);
  }
}

}  // namespace customccl::shm
