#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "c10d/compat.h"
#include "c10d/work.h"

namespace customccl::torch_shim {

// The function that a user registers to hear of every successful operation of a group. Runs on the thread that completed the
// operation, with no lock held. What it throws is a warning: the operation has succeeded. Thread-safe.
class CompletionHook : public std::enable_shared_from_this<CompletionHook> {
 public:
  using Function = std::function<void(std::shared_ptr<::c10d::WorkInfo>)>;

  bool active() const { return active_.load(std::memory_order_acquire); }
  void set(Function function);
  void call(::c10d::OpType type, std::uint64_t sequence, Clock::time_point begin);
  // Calls the function when `task` is done.
  void follow(const std::shared_ptr<TensorTask>& task, ::c10d::OpType type);
  // Until every followed task is done and the function has been called for it.
  void wait_for_pending(Communicator& group);

 private:
  std::atomic<bool> active_{false};
  Function function_;
  std::mutex mutex_;
  std::condition_variable called_;
  std::vector<std::shared_ptr<TensorTask>> pending_;
};

}  // namespace customccl::torch_shim
