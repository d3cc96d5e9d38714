#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "host/arena_header.h"
#include "host/range_allocator.h"
#include "platform/memory_file.h"

namespace customccl {

// A range of this process's arena, with its pages present.
struct Block {
  std::size_t offset = 0;
  std::size_t bytes = 0;
  std::byte* data = nullptr;
};

// The shared memory of this process: one nameless file, mapped whole by every local peer, from which all groups take their
// control blocks, staging and mailboxes. Address space is reserved generously and pages exist only for what is in use.
// One per process, made at the first group and never destroyed (the kernel takes it back). Thread-safe.
class HostArena {
 public:
  // The arena of this process. After a fork the child gets one of its own.
  static Status get(HostArena*& out);
  // The arena if there is one, else nullptr; makes none.
  static HostArena* existing();

  // The contents of a fresh block are zero. It begins at a multiple of `alignment`, in the arena and in memory.
  Status allocate(std::size_t bytes, Block& out, std::size_t alignment = RangeAllocator::kPage);
  void release(const Block& block);

  bool holds(const std::byte* data, std::size_t bytes) const {
    const auto offset = reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(base_);
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  // Whether peers see what lies there: it is memory of the arena, and was not withdrawn.
  bool shares(const std::byte* data, std::size_t bytes) const;
  // Whether it lies alone in its pages, from the first byte of the first one on.
  bool fills_pages(const std::byte* data, std::size_t bytes) const;
  // What fills its pages becomes memory of this process alone, with the same contents, until its block is released. Peers may still write
  // to what was there; `unwritable` tells when none will. A block may be released, and so handed out again, when that is settled.
  // Where there is no memory for that, peers may write to the block itself, and it is settled as late.
  using Unwritable = std::shared_ptr<const std::function<bool()>>;
  Status withdraw(const std::byte* data, std::size_t bytes, Unwritable unwritable) noexcept;
  // Called once by each who may withdraw something, before and after the time in which it may: so there is room to remember what is
  // withdrawn, and withdraw() cannot fail for want of it.
  void expect_withdrawal();
  void expect_none();
  bool settled(const Block& block) const;

  // Gives the pages of a block back to the system while its place stays, and takes new ones, zeroed. In between nobody touches it.
  void give_pages(const Block& block);
  Status take_pages(const Block& block);

  // What gives back memory of the arena that is kept for later, and says whether there was any: asked before anything is refused.
  void on_shortage(std::function<bool()> give_back);

  // The offset of a word that never serves anything but as such a word (presence.h).
  Status take_word(std::size_t& offset);
  void give_word(std::size_t offset);
  // Likewise a page that never serves anything but as a notice board (notice_board.h). Not emptied in between.
  Status take_board(Block& out);
  void give_board(const Block& page);

  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base_); }
  std::byte* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  const MemoryFile& file() const { return file_; }
  const std::string& mechanism() const { return file_.mechanism; }
  std::size_t bytes_in_use() const;
  const Id128& secret() const { return secret_; }
  // Where the keeper listens for peers.
  std::uint64_t network() const { return network_; }

 private:
  struct Withdrawn {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    Unwritable unwritable;
    bool is_private = false;
    bool meets(std::size_t begin, std::size_t size) const { return begin < offset + bytes && offset < begin + size; }
  };

  HostArena() : ranges_(0) {}
  ~HostArena() { unmap_memory(base_, bytes_); }  // only of one that could not be made
  Status create();
  template <class Attempt>
  Status with_room(const Attempt& attempt);
  Status allocate_locked(std::size_t bytes, Block& out, std::size_t alignment = RangeAllocator::kPage);
  static std::size_t last_page(const Block& block) { return block.offset + block.bytes - RangeAllocator::kPage; }
  std::size_t offset_of(const std::byte* data) const { return static_cast<std::size_t>(data - base_); }
  bool share_withdrawn(const Block& block);
  void drop_pages(const Block& block);

  MemoryFile file_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  Id128 secret_{};
  std::uint64_t network_ = 0;
  mutable std::mutex mutex_;  // guards what follows
  RangeAllocator ranges_;
  std::size_t in_use_ = 0;
  std::set<std::size_t> bare_;               // offsets of blocks without pages
  std::map<std::size_t, std::size_t> ends_;  // of blocks whose last page is not full, by the offset of that page
  std::vector<Withdrawn> withdrawn_;         // with room for those that are expected
  std::size_t expected_ = 0;
  std::vector<std::size_t> free_words_;
  std::vector<Block> free_boards_;
  std::function<bool()> give_back_;
};

}  // namespace customccl
