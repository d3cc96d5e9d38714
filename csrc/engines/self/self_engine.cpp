#include "engines/self/self_engine.h"

#include "engines/move.h"

namespace customccl {

Step SelfEngine::start(Operation& op, Status&) {
  const Call& call = *op.call;
  if (call.inputs.empty() || call.outputs.empty()) return Step::kDone;
  const View& input = call.inputs[0];
  Scratch scratch;
  if (!scaled(call)) {
    move_elements(call, scratch, input, call.outputs[0], 0, input.count);
    return Step::kDone;
  }
  const std::size_t element = size_of(call.dtype);
  const std::size_t block = Scratch::kBytes / element;
  for (std::size_t done = 0; done < input.count; done += block) {
    const std::size_t count = std::min(block, input.count - done);
    stage(scratch.input(), call, input, done, count, Store::kPlain);
    unpack(call.outputs[0], done, count, scratch.input(), element, Store::kPlain);
  }
  return Step::kDone;
}

}  // namespace customccl
