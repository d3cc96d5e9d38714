#include "host/presence.h"

#include "platform/process.h"

namespace customccl {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

void Presence::set(std::uint64_t value) {
  reinterpret_cast<std::atomic<std::uint64_t>*>(arena_->base() + offset_)->store(value, std::memory_order_release);
}

Status Presence::begin(HostArena& arena) {
  std::size_t offset = 0;
  if (Status status = arena.take_word(offset); !status.ok()) return status;
  arena_ = &arena;
  offset_ = offset;
  number_ = random_id()[0] | kReads;
  set(number_);
  return {};
}

void Presence::close() {
  if (arena_ != nullptr) set(number_ & ~kReads);
}

void Presence::end() {
  if (arena_ == nullptr) return;
  set(0);
  arena_->give_word(offset_);
  arena_ = nullptr;
}

}  // namespace customccl
