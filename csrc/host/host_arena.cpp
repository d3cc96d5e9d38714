#include "host/host_arena.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "host/keeper.h"
#include "platform/inheritance.h"
#include "platform/log.h"
#include "platform/once_per_process.h"
#include "platform/process.h"
#include "platform/settings.h"
#include "platform/unix_socket.h"

namespace customccl {

namespace {

struct Instance {
  std::mutex making;
  std::atomic<HostArena*> arena{nullptr};  // never destroyed: peers may read it until the process is gone
};

}  // namespace

Status HostArena::get(HostArena*& out) {
  watch_for_fork();
  auto& instance = once_per_process<Instance>();
  const std::lock_guard lock(instance.making);
  if (instance.arena.load(std::memory_order_relaxed) == nullptr) {
    auto* fresh = new HostArena();
    if (Status status = fresh->create(); !status.ok()) {
      delete fresh;
      return status;
    }
    instance.arena.store(fresh, std::memory_order_release);
  }
  out = instance.arena.load(std::memory_order_relaxed);
  return {};
}

HostArena* HostArena::existing() { return once_per_process<Instance>().arena.load(std::memory_order_acquire); }

Status HostArena::create() {
  bytes_ = settings().arena_bytes;
  if (Status status = create_memory_file("customccl", bytes_, file_); !status.ok()) return status;
  if (Status status = map_memory_file(file_.fd, bytes_, base_); !status.ok()) return status;
  ranges_ = RangeAllocator(bytes_);
  secret_ = random_id();
  network_ = network_namespace();
  static_cast<void>(boot_id());  // remembered while a descriptor is left to read it with
  Block first;
  if (Status status = allocate(sizeof(ArenaHeader), first); !status.ok()) return status;
  auto* made = new (base_) ArenaHeader();
  made->id = random_id();
  made->address = reinterpret_cast<std::uintptr_t>(base_);
  made->bell.prepare();
  if (Status status = start_keeper(*this); !status.ok()) return status;
  lend_to_children(file_, base_, bytes_);
  return {};
}

void HostArena::on_shortage(std::function<bool()> give_back) {
  const std::lock_guard lock(mutex_);
  give_back_ = std::move(give_back);
}

// Tries once more, if anything was given back for it: without the lock, as that releases blocks.
template <class Attempt>
Status HostArena::with_room(const Attempt& attempt) {
  std::unique_lock lock(mutex_);
  Status status = attempt();
  if (status.ok() || !give_back_) return status;
  const auto give_back = give_back_;
  lock.unlock();
  if (!give_back()) return status;
  lock.lock();
  return attempt();
}

Status HostArena::allocate(std::size_t bytes, Block& out, std::size_t alignment) {
  return with_room([&] { return allocate_locked(bytes, out, alignment); });
}

Status HostArena::allocate_locked(std::size_t bytes, Block& out, std::size_t alignment) {
  const auto offset = ranges_.take(bytes, alignment);
  if (!offset) {
    return {Code::kSystem,
            "customccl: the shared memory of this process is used up (" + std::to_string(in_use_) + " of " +
                std::to_string(bytes_) + " bytes, " + std::to_string(bytes) +
                " more wanted). Destroy groups that are no longer used, or raise CUSTOMCCL_ARENA_BYTES."};
  }
  const Block fresh{*offset, RangeAllocator::rounded(bytes), base_ + *offset};
  try {
    const std::size_t end = fresh.offset + bytes;
    if (bytes != fresh.bytes) ends_.emplace(last_page(fresh), end);
  } catch (const std::exception&) {
    ranges_.give(fresh.offset, fresh.bytes);
    throw;
  }
  if (Status status = reserve_pages(file_, fresh.offset, fresh.bytes); !status.ok()) {
    release_pages(file_, fresh.offset, fresh.bytes);
    ends_.erase(last_page(fresh));
    ranges_.give(fresh.offset, fresh.bytes);
    return status;
  }
  in_use_ += fresh.bytes;
  out = fresh;
  return {};
}

// First what may need memory: without it the block is as it was, and may be released again.
void HostArena::release(const Block& block) {
  const std::lock_guard lock(mutex_);
  if (share_withdrawn(block)) ranges_.give(block.offset, block.bytes);  // else others shall not get it
  if (bare_.erase(block.offset) == 0) drop_pages(block);
  ends_.erase(last_page(block));
}

bool HostArena::share_withdrawn(const Block& block) {
  Status status;
  std::erase_if(withdrawn_, [&](const Withdrawn& part) {
    if (!part.meets(block.offset, block.bytes)) return false;
    if (status.ok() && part.is_private) status = share_pages(file_, part.offset, base_ + part.offset, part.bytes);
    return true;
  });
  if (!status.ok()) log(LogLevel::kWarning, status.message());
  return status.ok();
}

bool HostArena::shares(const std::byte* data, std::size_t bytes) const {
  if (!holds(data, bytes)) return false;
  const std::lock_guard lock(mutex_);
  return std::ranges::none_of(withdrawn_, [&](const Withdrawn& part) { return part.meets(offset_of(data), bytes); });
}

bool HostArena::fills_pages(const std::byte* data, std::size_t bytes) const {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset_of(data);
  const std::size_t end = begin + bytes;
  if (begin % page != 0) return false;
  if (end % page == 0) return true;
  if (page != RangeAllocator::kPage) return false;
  const std::lock_guard lock(mutex_);
  const auto block = ends_.find(end / page * page);
  return block != ends_.end() && block->second == end;
}

Status HostArena::withdraw(const std::byte* data, std::size_t bytes, Unwritable unwritable) noexcept {
  const std::size_t offset = offset_of(data);
  bytes = RangeAllocator::rounded(bytes);
  const std::lock_guard lock(mutex_);
  Withdrawn& part = withdrawn_.emplace_back(Withdrawn{offset, bytes, std::move(unwritable)});
  Status status(Code::kSystem, "no memory");
  attempt([&] { status = make_private(base_ + offset, bytes); });
  part.is_private = status.ok();
  return status;
}

void HostArena::expect_withdrawal() {
  const std::lock_guard lock(mutex_);
  withdrawn_.reserve(std::max(withdrawn_.size() + expected_ + 1, 2 * withdrawn_.size()));
  ++expected_;
}

void HostArena::expect_none() {
  const std::lock_guard lock(mutex_);
  --expected_;
}

bool HostArena::settled(const Block& block) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(withdrawn_, [&](const Withdrawn& part) {
    return !part.meets(block.offset, block.bytes) || (*part.unwritable)();
  });
}

void HostArena::give_pages(const Block& block) {
  const std::lock_guard lock(mutex_);
  if (bare_.insert(block.offset).second) drop_pages(block);
}

void HostArena::drop_pages(const Block& block) {
  release_pages(file_, block.offset, block.bytes);
  in_use_ -= block.bytes;
}

Status HostArena::take_pages(const Block& block) {
  return with_room([&]() -> Status {
    if (!bare_.contains(block.offset)) return {};
    if (Status status = reserve_pages(file_, block.offset, block.bytes); !status.ok()) {
      release_pages(file_, block.offset, block.bytes);
      return status;
    }
    bare_.erase(block.offset);
    in_use_ += block.bytes;
    return {};
  });
}

Status HostArena::take_word(std::size_t& offset) {
  return with_room([&]() -> Status {
    if (free_words_.empty()) {
      Block page;
      if (Status status = allocate_locked(RangeAllocator::kPage, page); !status.ok()) return status;
      for (std::size_t at = page.bytes; at != 0; at -= sizeof(std::uint64_t))
        free_words_.push_back(page.offset + at - sizeof(std::uint64_t));
    }
    offset = free_words_.back();
    free_words_.pop_back();
    return {};
  });
}

void HostArena::give_word(std::size_t offset) {
  const std::lock_guard lock(mutex_);
  free_words_.push_back(offset);
}

Status HostArena::take_board(Block& out) {
  return with_room([&]() -> Status {
    if (free_boards_.empty()) return allocate_locked(RangeAllocator::kPage, out);
    out = free_boards_.back();
    free_boards_.pop_back();
    return {};
  });
}

void HostArena::give_board(const Block& page) {
  const std::lock_guard lock(mutex_);
  free_boards_.push_back(page);
}

std::size_t HostArena::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return in_use_;
}

}  // namespace customccl
