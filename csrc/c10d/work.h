#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "c10d/compat.h"
#include "c10d/prepared_call.h"
#include "core/communicator.h"

namespace customccl::torch_shim {

// One asynchronous call: keeps its tensors alive until it is done.
class TensorTask final : public Task {
 public:
  TensorTask(PreparedCall&& prepared, Nanos limit, std::vector<at::Tensor> kept)
      : Task(prepared.call(), limit), prepared_(std::move(prepared)), kept_(std::move(kept)) {
    prepared_.attach(call());
  }

  // Runs `then` when the task is done, at once if it is.
  void when_done(std::function<void()> then);
  void completed() override;

 private:
  PreparedCall prepared_;
  std::vector<at::Tensor> kept_;
  std::mutex mutex_;
  bool fired_ = false;
  std::vector<std::function<void()>> then_;
};

// The end of one or several tasks that make up one Work. Outlives the Work: the tasks complete it.
class WorkState {
 public:
  WorkState(std::vector<std::shared_ptr<TensorTask>> tasks, std::vector<at::Tensor> outputs)
      : tasks_(std::move(tasks)), outputs_(std::move(outputs)), left_(tasks_.size()) {}

  const std::vector<std::shared_ptr<TensorTask>>& tasks() const { return tasks_; }
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  bool done() const;
  // The first failure, or nullptr. Valid once done.
  const Status* failure() const;
  c10::intrusive_ptr<c10::ivalue::Future> future();
  // Once done: from the call to the end of the last task.
  Nanos took() const;
  // Once done: until the profiler knows, and until the future, if anybody asked for it, has its value. Its callbacks may still run then.
  void settle();

  // `end_profile` and `watcher` run when all tasks are done; `watcher` hears whether well, and how long they took. Both may be empty.
  using Watcher = std::function<void(bool ok, Nanos took)>;
  static void follow(const std::shared_ptr<WorkState>& state, std::function<void()> end_profile, Watcher watcher);

 private:
  void one_done();
  void end_profile();
  void complete(c10::ivalue::Future& future) const;

  std::vector<std::shared_ptr<TensorTask>> tasks_;
  std::vector<at::Tensor> outputs_;
  Clock::time_point begin_ = Clock::now();
  std::atomic<std::size_t> left_;
  std::mutex profile_mutex_;
  std::function<void()> end_profile_;
  Watcher watcher_;
  std::mutex mutex_;
  bool ended_ = false;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // made when asked for
};

// What c10d hands to the user for an asynchronous operation.
class TaskWork final : public ::c10d::Work {
 public:
  TaskWork(std::shared_ptr<Communicator> group, std::vector<std::shared_ptr<TensorTask>> tasks, ::c10d::OpType type,
           const char* title, const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs,
           WorkState::Watcher watcher);

  bool isCompleted() override;
  bool isSuccess() const override { return state_->done() && state_->failure() == nullptr; }
  std::exception_ptr exception() const override;
  int sourceRank() const override { return state_->tasks().front()->source(); }
  std::vector<at::Tensor> result() override { return state_->outputs(); }
  // 0 ms: as long as the operation's own limit. A limit given here leaves the operation running when it passes.
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override { group_->abort("Work.abort()"); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return state_->future(); }
  float getDuration() const override { return static_cast<float>(state_->took().count()) / 1e6F; }
  std::uint64_t getSequencenumber() const override { return state_->tasks().front()->operation().sequence; }

 private:
  std::shared_ptr<Communicator> group_;
  std::shared_ptr<WorkState> state_;
};

// Done from the start: what a synchronous call returns. It holds nothing, so one serves all calls.
class DoneWork final : public ::c10d::Work {
 public:
  explicit DoneWork(::c10d::OpType type = ::c10d::OpType::UNKNOWN) : Work(-1, type) {}
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override {
    Work::synchronize();
    return true;
  }
  std::vector<at::Tensor> result() override { return {}; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
};

}  // namespace customccl::torch_shim
