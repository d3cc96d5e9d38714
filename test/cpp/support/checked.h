#pragma once

#include <memory>
#include <string>

#include "base/call.h"
#include "core/communicator.h"

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

// Posts the call and returns its task; `checked` must outlive it.
inline std::shared_ptr<Task> post(Communicator& group, const Checked& checked) {
  auto task = std::make_shared<Task>(checked.call(), group.limit_of(checked.call()));
  group.post(task);
  return task;
}

}  // namespace customccl::test
