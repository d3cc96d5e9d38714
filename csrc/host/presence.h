#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "host/host_arena.h"

namespace customccl {

// Tells the peers of one group whether this rank still reads what they show it, and whether what it shows is still there: a word
// in this process's arena. It holds a number no other group has, then that number marked as closed, then something else.
//
// The words lie in pages that never serve anything else and are never given back. So a peer may look at one long after its group
// is gone, when it belongs to another group: it is always an atomic word, and says either that number or another one. A word
// in the control block itself could not be used so: its memory becomes somebody's data.
class Presence {
 public:
  // Before any peer learns of the group.
  Status begin(HostArena& arena);
  // Everything this rank wanted to read of its peers is read: they may take their memory back.
  void close();
  // Before this rank's memory of the group is given back.
  void end();

  std::uint64_t number() const { return number_; }
  std::size_t offset() const { return offset_; }

  // Asked of a peer's word: does it read? Is its memory of the group there?
  static bool reads(const std::byte* word, std::uint64_t number) { return value_of(word) == number; }
  static bool shows(const std::byte* word, std::uint64_t number) { return (value_of(word) | kReads) == number; }

 private:
  static constexpr std::uint64_t kReads = 1;

  static std::uint64_t value_of(const std::byte* word) {
    return reinterpret_cast<const std::atomic<std::uint64_t>*>(word)->load(std::memory_order_acquire);
  }
  void set(std::uint64_t value);

  HostArena* arena_ = nullptr;
  std::size_t offset_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace customccl
