#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>

#include "host/host_arena.h"
#include "platform/clock.h"

namespace customccl {

// Memory for tensors, of this process's arena. What a freed tensor lay in waits for the next one of as many bytes, with its pages, here
// and in the peers' maps: FSDP2 asks for its buffers anew in every layer of every step, and fresh pages cost more than a collective
// in place saves (docs/measured-decisions.md).
//
// What waits and what is in use are together at most one and a half times what once was in use: buffers of several sizes have their peaks
// at different moments of a step. Nothing waits longer than kPatience: the keeper gives it back to the system then; and all of it goes
// as soon as anything finds no room in the arena. Thread-safe.
class TensorMemory {
 public:
  static constexpr Nanos kPatience = std::chrono::seconds(10);

  // That of this process. A forked child has one of its own, as it has an arena of its own.
  static TensorMemory& of_process();

  // 0 bytes count as one. The contents are arbitrary.
  Status allocate(std::size_t bytes, Block& out);
  // A block of so many bytes that was allocated here. Where peers may still write to it, it is given back when none will any more.
  void release(const Block& block, std::size_t bytes) noexcept;

  // Gives back what has waited for kPatience by `now`. When to look again: nothing, if nothing waits.
  std::optional<Clock::time_point> tidy(Clock::time_point now);
  // Gives back all that waits. Whether there was anything.
  bool give_back_all();

  std::size_t waiting_bytes() const;

 private:
  struct Waiting {
    Block block;
    std::size_t bytes = 0;  // as they were asked for
    Clock::time_point since;
  };
  std::optional<Block> reuse(std::size_t bytes);
  void count_in(const Block& block);
  void give_back_excess();
  void give_back_oldest();

  mutable std::mutex mutex_;    // guards what follows
  std::list<Waiting> waiting_;  // oldest first
  std::size_t waiting_bytes_ = 0;
  std::size_t in_use_ = 0;
  std::size_t most_in_use_ = 0;
  bool watched_ = false;  // the keeper will look
};

}  // namespace customccl
