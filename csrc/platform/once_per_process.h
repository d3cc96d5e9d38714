#pragma once

#include <atomic>
#include <cstdint>

#include "platform/process.h"

namespace customccl {

// The one instance of T in this process, made when first asked for and never destroyed (its threads run until the process is
// gone). A forked child gets a fresh one: threads of the parent's do not exist there, and its locks may be held for ever.
// No lock here either, for the same reason. Making a T must be free of side effects: of two made at once, one is thrown away.
template <class T>
T& once_per_process() {
  struct Made {
    T value;
    std::uint64_t generation = fork_generation();
  };
  static std::atomic<Made*> current{nullptr};
  Made* seen = current.load(std::memory_order_acquire);
  if (seen != nullptr && seen->generation == fork_generation()) return seen->value;
  auto* fresh = new Made();
  if (current.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return fresh->value;
  delete fresh;
  return seen->value;
}

// What Make() says at the first call, which forked children keep. Not a static variable: a child that is forked while a thread makes that
// would wait for the thread, for ever.
template <auto Make>
const auto& made_once() {
  using T = decltype(Make());
  static std::atomic<const T*> current{nullptr};
  const T* seen = current.load(std::memory_order_acquire);
  if (seen != nullptr) return *seen;
  const T* fresh = new T(Make());
  if (current.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *seen;
}

}  // namespace customccl
