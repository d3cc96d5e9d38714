#pragma once

#include <cstdint>
#include <mutex>

#include "platform/process.h"

namespace customccl {

// The one instance of T in this process, made when first asked for and never destroyed (its threads run until the process is
// gone). A forked child gets a fresh one: threads and locks of the parent's do not exist there.
template <class T>
T& once_per_process() {
  static std::mutex mutex;
  static T* instance = nullptr;
  static std::uint64_t generation = 0;
  const std::lock_guard lock(mutex);
  if (instance == nullptr || generation != fork_generation()) {
    instance = new T();
    generation = fork_generation();
  }
  return *instance;
}

}  // namespace customccl
