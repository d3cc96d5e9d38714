#pragma once

#include <string>

#include "base/call.h"

namespace customccl::test {

// A call that owns its tensors and knows what must come out.
class Checked {
 public:
  virtual ~Checked() = default;
  virtual const Call& call() const = 0;
  // Once the call is done: empty when every output is right, every input unchanged and nothing else was touched; else what is
  // wrong.
  virtual std::string verify() const = 0;
};

}  // namespace customccl::test
