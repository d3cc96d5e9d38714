#include "engines/shm/members.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/attempt.h"
#include "base/first_bytes.h"
#include "host/limbo.h"

namespace customccl::shm {

bool Members::memory_is_read() {
  if (memory_is_read_) return true;
  memory_is_read_ = std::all_of(blocks_.begin(), blocks_.end(), [](const ControlBlock* block) {
    return block->reads_memory.load(std::memory_order_acquire) != 0;
  });
  return memory_is_read_;
}

bool Members::gave_up(int member) const {
  const std::uint32_t state = blocks_[static_cast<std::size_t>(member)]->state.load(std::memory_order_acquire);
  return (state & (ControlBlock::kFailed | ControlBlock::kAbandoned)) != 0;
}

bool Members::shares_processor() const {
  const int processor = ::sched_getcpu();
  for (int member = 0; member < spec_.size; ++member) {
    const ControlBlock& block = *blocks_[static_cast<std::size_t>(member)];
    if (member != spec_.rank && block.processor.load(std::memory_order_relaxed) == processor) return true;
  }
  return false;
}

std::vector<int> Members::not_reached(std::uint64_t turn) const {
  std::vector<int> missing;
  for (int member = 0; member < spec_.size; ++member) {
    if (!line(member, turn).reached(turn)) missing.push_back(member);
  }
  return missing;
}

Status Members::diagnose(const std::vector<int>& awaited) const {
  for (int member = 0; member < spec_.size; ++member) {
    const ControlBlock& block = *blocks_[static_cast<std::size_t>(member)];
    if (member == spec_.rank || (block.state.load(std::memory_order_acquire) & ControlBlock::kFailed) == 0) continue;
    std::string text(block.notice.text, ::strnlen(block.notice.text, sizeof(block.notice.text)));
    return {static_cast<Code>(block.notice.code), describe(member) + " gave the group up: " + text,
            block.notice.culprit};
  }
  for (const int member : awaited) {
    // In this order: who leaves and then ends is dead only after it has left.
    const bool dead = arenas_[static_cast<std::size_t>(member)]->dead();
    if (left(member)) return {Code::kPeerLeft, describe(member) + " destroyed the group", global_rank(member)};
    if (dead) return {Code::kPeerDied, describe(member) + " died", global_rank(member)};
  }
  return {};
}

Status Members::diagnose_anybody() const {
  bool somebody = false;
  for (int member = 0; member < spec_.size; ++member) {
    if (member == spec_.rank) continue;
    const bool dead = arenas_[static_cast<std::size_t>(member)]->dead();
    if (left(member)) continue;
    if (dead) return {Code::kPeerDied, describe(member) + " died", global_rank(member)};
    somebody = true;
  }
  return somebody ? Status{} : Status{Code::kPeerLeft, "every other rank destroyed the group"};
}

Code Members::gone(int member) const {
  if (arenas_[static_cast<std::size_t>(member)]->dead()) return Code::kPeerDied;
  return left(member) ? Code::kPeerLeft : Code::kOk;
}

bool Members::left(int member) const {
  const std::uint32_t state = blocks_[static_cast<std::size_t>(member)]->state.load(std::memory_order_acquire);
  return (state & ControlBlock::kClosed) != 0;
}

std::string Members::describe(int member) const {
  return "rank " + std::to_string(global_rank(member)) + " (pid " +
         std::to_string(pids_[static_cast<std::size_t>(member)]) + ")";
}

void Members::fail(const Status& why) {
  if (block_.data == nullptr || generation_ != fork_generation() || failed_.exchange(true)) return;
  auto& block = *reinterpret_cast<ControlBlock*>(block_.data);
  block.notice.code = static_cast<std::int32_t>(why.code);
  block.notice.culprit = why.culprit;
  const std::string_view text = first_bytes(why.message(), sizeof(block.notice.text) - 1);
  std::memcpy(block.notice.text, text.data(), text.size());
  block.notice.text[text.size()] = '\0';
  block.state.fetch_or(ControlBlock::kFailed, std::memory_order_acq_rel);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the caller writes over what it shows (shown_tensors.h)
  for (Doorbell* bell : peer_bells_) bell->wake();
}

void Members::abandon() noexcept {
  own().state.fetch_or(ControlBlock::kAbandoned, std::memory_order_acq_rel);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // as in fail()
}

Members::~Members() {
  if (block_.data == nullptr || generation_ != fork_generation()) return;
  reinterpret_cast<ControlBlock*>(block_.data)->state.fetch_or(ControlBlock::kClosed, std::memory_order_acq_rel);
  for (Doorbell* bell : peer_bells_) bell->wake();
  presence_.close();
  if (peers_gone_ != nullptr) arena_->expect_none();
  // Without the memory to remember it nobody gets this group's.
  attempt([this] {
    bury(std::move(owned_), [peers = peers_now(), patience = Deadline(spec_.timeout), presence = presence_]() mutable {
      if (!peers.gone(patience)) return false;
      presence.end();
      return true;
    });
  });
}

// Whether every peer has closed the group or died.
bool Members::Peers::gone(const Deadline& patience) const {
  for (std::size_t member = 0; member < readers.size(); ++member) {
    if (static_cast<int>(member) == rank) continue;
    if (readers[member].word == nullptr) {
      // We gave up before we found it, but it may have found us, and must see why we are gone.
      if (!patience.passed()) return false;
      continue;
    }
    if (!arenas[member]->dead() && Presence::reads(readers[member].word, readers[member].number)) return false;
  }
  return true;
}

Status Members::withdraw(const std::byte* data, std::size_t bytes) noexcept {
  return arena_->withdraw(data, bytes, peers_gone_);
}

Status Members::allocate(std::size_t bytes, Block& out) {
  const std::lock_guard lock(owned_mutex_);
  owned_.reserve(owned_.size() + 1);
  if (Status status = arena_->allocate(bytes, out); !status.ok()) return status;
  owned_.push_back(out);
  return {};
}

}  // namespace customccl::shm
