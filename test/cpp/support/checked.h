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

// A task that begins on the stack.
class Movable final : public Task {
 public:
  using Task::Task;
  Movable(Movable&& from) noexcept : Task(std::move(from)) {}
  std::shared_ptr<Task> move_to_heap() override { return moved_ = std::make_shared<Movable>(std::move(*this)); }
  const std::shared_ptr<Task>& moved() const { return moved_; }

 private:
  std::shared_ptr<Task> moved_;
};

// The same as post() by a task on the stack; what it returns is another one if that was over.
inline std::shared_ptr<Task> begin(Communicator& group, const Checked& checked) {
  Movable task(checked.call(), group.limit_of(checked.call()));
  group.post(task);
  return task.moved() != nullptr ? task.moved() : task.move_to_heap();
}

}  // namespace customccl::test
