#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "c10d/compat.h"
#include "c10d/prepared_call.h"
#include "core/communicator.h"

namespace customccl::torch_shim {

// One asynchronous call: keeps the memory of its tensors alive until it is done, also of those that are given other memory meanwhile
// (`x.data = y`, as Module.to() does it).
class TensorTask final : public Task {
 public:
  using Memory = c10::SmallVector<c10::Storage, 2>;
  static Memory memory_of(at::TensorList inputs, at::TensorList outputs);

  TensorTask(PreparedCall&& prepared, Nanos limit, at::TensorList inputs, at::TensorList outputs,
             Clock::time_point begun = Clock::now());
  // Before it is posted: what several of them keep together.
  void keep(std::shared_ptr<const Memory> memory) { kept_together_ = std::move(memory); }

  // Runs `then` when the task is done, at once if it is.
  void when_done(std::function<void()> then);
  // When it was called.
  Clock::time_point begun() const { return begun_; }
  void completed() override;

 private:
  Memory kept_;
  std::shared_ptr<const Memory> kept_together_;
  PreparedCall prepared_;  // after what may fail for want of memory: whoever gave it still has it then
  Clock::time_point begun_;
  std::mutex mutex_;
  bool fired_ = false;
  std::vector<std::function<void()>> then_;
};

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

inline float milliseconds(Nanos time) { return static_cast<float>(time.count()) / 1e6F; }

// What Works tell of their times. Two looks at the clock are a tenth of what a small operation costs, so nobody looks unasked.
inline float duration(std::optional<Nanos> took) {
  TORCH_CHECK(took,
              "customccl: times are taken of operations that begin after _enable_collectives_timing() of their group");
  return milliseconds(*took);
}

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
  // The outputs, or the error.
  FuturePtr future();
  // How it ended, as a ::c10d::WorkResult; never an error.
  FuturePtr result_future();
  // Once done: from the call to the end of the last task.
  Nanos took() const;
  // Once done: those who watch are told, and the futures that anybody asked for get their values, here or by a thread that is at it
  // already (their callbacks may still run then). Unless `patient`, waits for no such thread: false while it has not come to an end.
  bool settle(bool patient);

  // `end_profile` and `watcher` run once when all tasks are done, on the thread that sees it first, with no lock held and before
  // anybody else learns of it; `watcher` hears the failure, if any, and how long they took. Both may be empty.
  using Watcher = std::function<void(const Status* failure, Nanos took)>;
  static void follow(const std::shared_ptr<WorkState>& state, std::function<void()> end_profile, Watcher watcher);

 private:
  enum Telling : std::uint32_t { kUntold, kBeingTold, kTold };
  // A future, made when somebody asks for it. Whoever claims it gives it its value, once, with no lock held: its callbacks, the user's,
  // run there. So nobody who waits for a value waits for callbacks, of this future or of the other one.
  struct Promise {
    FuturePtr future;
    bool claimed = false;
  };

  void one_done();
  bool tell(bool patient);
  // Whether settle() may have passed by: a future made now is completed by whoever makes it.
  bool over() const { return done() && telling_.load(std::memory_order_acquire) == kTold; }
  FuturePtr ask(Promise& promise, FuturePtr (*make)());
  bool keep(Promise& promise, bool patient);
  void fulfil(const Promise& promise, c10::ivalue::Future& future) const;

  std::vector<std::shared_ptr<TensorTask>> tasks_;
  std::vector<at::Tensor> outputs_;
  std::atomic<std::size_t> left_;
  std::atomic<std::uint32_t> telling_{kTold};  // kUntold where somebody watches
  std::atomic<std::thread::id> teller_{};
  std::function<void()> end_profile_;
  Watcher watcher_;
  std::mutex mutex_;  // of the promises
  Promise future_;
  Promise result_;
};

// c10d's name for an operation, and the profiler's.
struct Label {
  ::c10d::OpType type;
  const char* title;
};

// Those who listen to one Work, and the key they know it by (0: none).
struct Audience {
  WorkState::Watcher watcher{};
  std::uint64_t key = 0;
  bool timed = false;  // asks how long it took
};

// What c10d hands to the user for an asynchronous operation.
class TaskWork final : public ::c10d::Work {
 public:
  TaskWork(std::shared_ptr<Communicator> group, std::vector<std::shared_ptr<TensorTask>> tasks, Label label,
           const std::vector<at::Tensor>& inputs, std::vector<at::Tensor> outputs, Audience audience);

  bool isCompleted() override;
  bool isSuccess() const override { return state_->done() && state_->failure() == nullptr; }
  std::exception_ptr exception() const override;
  int sourceRank() const override { return state_->tasks().front()->source(); }
  std::vector<at::Tensor> result() override { return state_->outputs(); }
  // 0 ms: as long as the operation's own limit. A limit given here leaves the operation running when it passes.
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override { group_->abort("Work.abort()"); }
  FuturePtr getFuture() override {
    carry_out_for_future();
    return state_->future();
  }
  FuturePtr getFutureResult() override {
    carry_out_for_future();
    return state_->result_future();
  }
  float getDuration() const override { return duration(timed_ ? std::optional(state_->took()) : std::nullopt); }
  std::uint64_t getSequencenumber() const override { return state_->tasks().front()->operation().sequence; }
  std::chrono::milliseconds getTimeout() const CUSTOMCCL_OVERRIDE_SINCE_2_14;
  std::uint64_t getCompletionKey() const CUSTOMCCL_OVERRIDE_SINCE_2_15 { return key_; }

 private:
  void carry_out_for_future() const;

  std::shared_ptr<Communicator> group_;
  std::shared_ptr<WorkState> state_;
  std::uint64_t key_;
  bool timed_;
};

// Done from the start: what a synchronous call returns, if it has to return a Work, and an asynchronous one that was over before it
// returned. Where nobody listens to a synchronous call it holds nothing, and one serves all calls.
class DoneWork final : public ::c10d::Work {
 public:
  explicit DoneWork(::c10d::OpType type = ::c10d::OpType::UNKNOWN) : Work(-1, type) {}
  DoneWork(::c10d::OpType type, std::uint64_t key, Nanos took, at::TensorList outputs)
      : Work(-1, type), outputs_(outputs.begin(), outputs.end()), key_(key), took_(took) {}
  // Of an asynchronous call, which ends with end().
  DoneWork(::c10d::OpType type, Nanos limit, at::TensorList outputs)
      : Work(-1, type), outputs_(outputs.begin(), outputs.end()), limit_(limit) {}
  void end(const Ended& ended, std::optional<Nanos> took) {
    ended_ = ended;
    took_ = took;
  }
  // The memory of the last one is kept for the next: a Work seldom outlives its call.
  static void* operator new(std::size_t bytes) {
    void* kept = spare.exchange(nullptr, std::memory_order_acquire);
    return kept != nullptr ? kept : ::operator new(bytes);
  }
  static void operator delete(void* memory) { ::operator delete(spare.exchange(memory, std::memory_order_acq_rel)); }

  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  [[gnu::hot]] bool wait(std::chrono::milliseconds) override {
    // That takes it off torch's list of Works in flight, behind a lock of the process. Whose only owner waits is on none.
    if (c10::raw::intrusive_ptr::use_count(this) > 1) Work::synchronize();
    return true;
  }
  int sourceRank() const override { return ended_ ? ended_->source : Work::sourceRank(); }
  std::vector<at::Tensor> result() override { return {outputs_.begin(), outputs_.end()}; }
  FuturePtr getFuture() override;
  FuturePtr getFutureResult() override;
  float getDuration() const override { return duration(took_); }
  std::uint64_t getSequencenumber() const override { return ended_ ? ended_->sequence : Work::getSequencenumber(); }
  std::chrono::milliseconds getTimeout() const CUSTOMCCL_OVERRIDE_SINCE_2_14 {
    return std::chrono::duration_cast<std::chrono::milliseconds>(limit_);
  }
  std::uint64_t getCompletionKey() const CUSTOMCCL_OVERRIDE_SINCE_2_15 { return key_; }

 private:
  inline static std::atomic<void*> spare{nullptr};

  c10::SmallVector<at::Tensor, 1> outputs_;
  std::uint64_t key_ = 0;
  std::optional<Nanos> took_;
  std::optional<Ended> ended_;  // of an asynchronous call
  Nanos limit_{0};
};

}  // namespace customccl::torch_shim
