#include "c10d/completion_hook.h"

namespace customccl::torch_shim {

void CompletionHook::set(Function function) {
  function_ = std::move(function);
  active_.store(true, std::memory_order_release);
}

void CompletionHook::call(::c10d::OpType type, std::uint64_t sequence, Clock::time_point begin) {
  const Clock::time_point end = Clock::now();
  try {
    function_(
        std::make_shared<::c10d::WorkInfo>(type, sequence, begin, end, std::chrono::duration<float>(end - begin)));
  } catch (const std::exception& error) {
    TORCH_WARN("customccl: the completion hook failed: ", error.what());
  }
}

void CompletionHook::follow(const std::shared_ptr<TensorTask>& task, ::c10d::OpType type) {
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back(task);
  }
  // The task outlives its own callbacks, so a plain pointer does; the hook may not outlive the group, so it is shared.
  task->when_done([hook = shared_from_this(), done = task.get(), type, begin = Clock::now()] {
    if (done->status().ok()) hook->call(type, done->operation().sequence, begin);
    {
      const std::lock_guard lock(hook->mutex_);
      std::erase_if(hook->pending_, [done](const auto& each) { return each.get() == done; });
    }
    hook->called_.notify_all();
  });
}

void CompletionHook::wait_for_pending(Communicator& group) {
  std::vector<std::shared_ptr<TensorTask>> pending;
  {
    const std::lock_guard lock(mutex_);
    pending = pending_;
  }
  for (const auto& task : pending) group.wait(*task, Nanos(0));
  std::unique_lock lock(mutex_);
  called_.wait_for(lock, group.spec().timeout, [this] { return pending_.empty(); });
}

}  // namespace customccl::torch_shim
