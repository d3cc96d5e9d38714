#pragma once

#include "core/lane.h"
#include "engines/engine.h"

namespace customccl {

class Communicator;

// The collectives of a group, in the order of their issue. The head runs; the others wait behind it.
class CollectiveLane final : public Lane {
 public:
  // `first`: number of the first collective.
  CollectiveLane(Communicator& group, Engine& engine, std::uint64_t first)
      : group_(group), engine_(engine), next_(first) {}

  [[gnu::hot]] Begun begin(Operation& op, int looks, Status& failure);
  // Goes on with `op` and what begin() said. Releases the lock.
  void continue_as(Task& task, Begun begun, const Operation& op, int looks, Status&& failure,
                   std::shared_ptr<Task> keep_alive);

  // What engines offer of the same names, for when nothing is under way.
  void suspend();
  Status resume();
  std::size_t staging_bytes();

  // How many collectives were issued, or the number of the last one: they are numbered from 1.
  std::uint64_t issued() const { return next_.load(std::memory_order_relaxed) - 1; }

 private:
  void accept(Task& task, Finished& finished) override;
  [[gnu::hot]] bool advance(Finished& finished) override;
  bool shares_processor() const override { return engine_.shares_processor(); }
  Status find_failure(Finished& finished) override;
  void drop_all(const Status& why, Finished& finished) noexcept override;
  void end_group(const Status& why) override;
  Doorbell& bell() const override;
  Status refusal(const Task& task) const noexcept override;
  Status explain(const Task& task, const Status& why) const noexcept override;
  std::vector<int> awaited_by(const Task& task) override;

  // Who is gone, or was awaited in vain.
  Status diagnose() const;
  void queue(Task& task);
  std::uint64_t take_number() {
    const std::uint64_t number = next_.load(std::memory_order_relaxed);
    next_.store(number + 1, std::memory_order_relaxed);
    return number;
  }
  Task& pop();

  Communicator& group_;
  Engine& engine_;
  Task* head_ = nullptr;
  Task* tail_ = nullptr;
  bool head_started_ = false;
  std::atomic<std::uint64_t> next_;
};

}  // namespace customccl
