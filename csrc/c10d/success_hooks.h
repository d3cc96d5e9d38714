#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "platform/clock.h"

namespace customccl::torch_shim {

// Functions that hear of every Work that succeeded, once each, however it ended: torch's flight recorder, from 2.15 on, learns there that
// an operation is over. They run on the thread that saw the end first, with no lock held. Thread-safe.
class SuccessHooks {
 public:
  // `key` names the Work: Work::getCompletionKey().
  using Hook = std::function<void(std::uint64_t key, Nanos took)>;

  void add(std::int64_t id, Hook hook) {
    change([&](Table& table) { table[id] = std::move(hook); });
    any_.store(true, std::memory_order_release);
  }
  void remove(std::int64_t id) {
    change([&](Table& table) { table.erase(id); });
  }
  // Whether there ever was one.
  bool any() const { return any_.load(std::memory_order_acquire); }
  void run(std::uint64_t key, Nanos took) const {
    for (const auto& [id, hook] : *table()) {
      try {
        hook(key, took);
      } catch (const std::exception& error) {
        TORCH_WARN("customccl: a completion hook failed: ", error.what());
      }
    }
  }

  // A number that no other Work of this process has.
  static std::uint64_t next_key() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

 private:
  using Table = std::map<std::int64_t, Hook>;

  std::shared_ptr<const Table> table() const {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  template <class Change>
  void change(Change&& change) {
    const std::lock_guard lock(mutex_);
    auto next = std::make_shared<Table>(*table_);
    change(*next);
    table_ = std::move(next);
  }

  std::atomic<bool> any_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<const Table> table_ = std::make_shared<Table>();
};

}  // namespace customccl::torch_shim
