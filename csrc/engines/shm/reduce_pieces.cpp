#include "engines/shm/reduce_pieces.h"

#include "kernels/reduce.h"

namespace customccl::shm {

namespace {

// Where the kernel writes a block: the output where it lies consecutively, else scratch, as the kernel reads what it has written, or the
// staging where that is all the same.
std::byte* destination(const Context& context, const Operation& op, const Reduction& piece, std::size_t done,
                       std::size_t element) {
  if (piece.output != nullptr && piece.output->contiguous())
    return piece.output->at(piece.output_first + done, element);
  if (piece.other_count != 0 && stores_in_place(op)) return piece.others[0] + done * element;
  return context.scratch.output();
}

}  // namespace

void reduce_blocks(const Context& context, const Operation& op, const Reduction& piece) {
  const Call& call = *op.call;
  const std::size_t element = size_of(call.dtype);
  const auto size = static_cast<std::size_t>(context.size());
  const std::size_t block = Scratch::kBytes / element;
  std::array<const std::byte*, kMaxMembers> sources;
  for (std::size_t done = 0; done < piece.count; done += block) {
    const std::size_t count = std::min(block, piece.count - done);
    for (std::size_t member = 0; member < size; ++member) {
      const bool own = piece.own != nullptr && member == static_cast<std::size_t>(context.rank());
      sources[member] = own ? consecutive(context.scratch.input(), call, *piece.own, piece.own_first + done, count)
                            : piece.staged[member] + done * element;
    }
    std::byte* target = destination(context, op, piece, done, element);
    reduce(target, {sources.data(), size}, count, call.dtype, call.reduce_op, {piece.origin});
    for (std::size_t i = 0; i < piece.other_count; ++i) {
      copy(piece.others[i] + done * element, target, count * element, op.store);
    }
    if (piece.output != nullptr && !piece.output->contiguous()) {
      unpack(*piece.output, piece.output_first + done, count, target, element, Store::kPlain);
    }
  }
}

}  // namespace customccl::shm
