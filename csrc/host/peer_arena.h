#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

#include "base/status.h"
#include "host/arena_header.h"
#include "platform/clock.h"

namespace customccl {

// Where a process's arena is found. Travels through the bootstrap store as text.
struct ArenaAddress {
  Id128 id{};
  Id128 secret{};
  std::uint64_t bytes = 0;
  std::int64_t pid = 0;
  std::uint64_t network = 0;  // network_namespace() of its socket
  std::string boot_id;
  std::string host;

  static Status own(ArenaAddress& out);
};
std::ostream& operator<<(std::ostream& text, const ArenaAddress& address);
std::istream& operator>>(std::istream& text, ArenaAddress& out);

// Another process's arena, mapped here (or this process's own). Shared by all groups with that process.
class PeerArena {
 public:
  PeerArena(std::byte* base, std::size_t bytes, bool mapped) : base_(base), bytes_(bytes), mapped_(mapped) {}
  ~PeerArena();
  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;

  // The address of [offset, offset + bytes), or nullptr when that is not inside the arena. Offsets come from a peer: always ask.
  std::byte* at(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= bytes_ && bytes <= bytes_ - offset ? base_ + offset : nullptr;
  }
  bool dead() const { return header().life.dead(); }

  // Whether the rest of that process's memory can be read too (a pid namespace, Yama or seccomp may forbid it).
  bool memory_readable() const;
  // Copies `bytes` at `address` in that process. Not 0: the errno why there are none, or not all.
  //
  // What comes is that process's: its memory lives until its keeper thread has ended, and the kernel marks the life word before it
  // lets go of the memory and of the thread's number. So who reads by that number and then sees the word unmarked has read no other
  // process that was given the number later.
  int read_memory(std::byte* to, std::uint64_t address, std::size_t bytes) const;
  Doorbell& bell() const { return header().bell; }

 private:
  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base_); }

  std::byte* base_;
  std::size_t bytes_;
  bool mapped_;
  std::uint64_t generation_ = fork_generation();
};

// Maps the arena at `address`, once per process however many groups ask. That it is the same memory is proved: the descriptor
// comes over a local socket from a process with our uid, and the mapped header carries the 128-bit id from the store.
// kUnreachable: the two processes cannot share memory (other host, other network namespace); the message says why.
// kPeerDied: it has ended.
Status attach(const ArenaAddress& address, const Deadline& deadline, std::shared_ptr<PeerArena>& out);

}  // namespace customccl
