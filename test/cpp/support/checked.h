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

// The task of a call that is not over at once, if there is one.
class MakesTask final : public TaskMaker {
 public:
  MakesTask(const Call& call, Nanos limit) : call_(call), limit_(limit) {}
  std::shared_ptr<Task> make() override { return made_ = std::make_shared<Task>(call_, limit_); }
  const std::shared_ptr<Task>& made() const { return made_; }

 private:
  const Call& call_;
  Nanos limit_;
  std::shared_ptr<Task> made_;
};

// The same as post() as a call that begins without a task; nullptr: it was over.
inline std::shared_ptr<Task> begin(Communicator& group, const Checked& checked, Ended& ended) {
  MakesTask maker(checked.call(), group.limit_of(checked.call()));
  return group.begin(checked.call(), ended, maker) ? nullptr : maker.made();
}

}  // namespace customccl::test
