#pragma once

#include <sched.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "engines/group_spec.h"
#include "engines/shm/control_block.h"
#include "host/bootstrap.h"
#include "host/host_arena.h"
#include "host/peer_arena.h"
#include "host/presence.h"
#include "platform/cpu.h"

namespace customccl::shm {

// The ranks of one group as seen by one of them: everybody's control block, who lives, and the turn flags.
class Members {
 public:
  // Allocates this rank's block, exchanges records through the bootstrap and maps everybody's arena. Peers may still be
  // mapping when this returns; the group's first collective proves that all are there.
  static Status meet(const GroupSpec& spec, Bootstrap& bootstrap, const Deadline& deadline,
                     std::unique_ptr<Members>& out);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const GroupSpec& spec() const { return spec_; }
  // A number that no other group has: memory of an earlier group is never taken for this one's.
  std::uint64_t identity() const { return identity_; }
  std::size_t slot_bytes() const { return slot_bytes_; }  // agreed by all
  std::size_t ring_bytes() const { return ring_bytes_; }  // agreed too, and so is this
  std::size_t one_shot_bytes() const { return one_shot_bytes_; }
  // Whether the members may run on as many processors as they are, by the records that all have read: agreed too.
  bool enough_processors() const { return enough_processors_; }
  // The same, and whether this rank's cgroup grants as much time: for its own waits alone.
  bool processor_each() const { return processor_each_; }
  // Shows which processor this thread is on, and tells whether a peer has last shown the same one.
  void show_processor() {
    const int processor = ::sched_getcpu();
    if (processor == shown_processor_) return;
    shown_processor_ = processor;
    own().processor.store(processor, std::memory_order_relaxed);
  }
  bool shares_processor() const;

  ControlBlock& own() { return *blocks_[static_cast<std::size_t>(rank_)]; }
  ControlBlock& of(int member) { return *blocks_[static_cast<std::size_t>(member)]; }
  const Line& line(int member, std::uint64_t turn) const {
    return blocks_[static_cast<std::size_t>(member)]->lines[turn & 1];
  }
  Line& own_line(std::uint64_t turn) { return own().lines[turn & 1]; }
  // Checked address inside a member's arena, or nullptr.
  std::byte* address(int member, std::uint64_t offset, std::uint64_t bytes) const {
    return arenas_[static_cast<std::size_t>(member)]->at(offset, bytes);
  }

  // Whether a range is memory of this rank's arena; whether peers see it there; and where in the arena it begins.
  bool arena_holds(const std::byte* data, std::size_t bytes) const { return arena_->holds(data, bytes); }
  bool arena_shares(const std::byte* data, std::size_t bytes) const { return arena_->shares(data, bytes); }
  std::uint64_t arena_offset(const std::byte* data) const { return static_cast<std::uint64_t>(data - arena_->base()); }
  // Whether peers may write there: what can be withdrawn from them, who have it mapped elsewhere.
  bool may_be_written(const std::byte* data, std::size_t bytes) const {
    return peers_elsewhere_ && arena_->fills_pages(data, bytes);
  }
  // What peers may have been writing to is this rank's alone from now on.
  Status withdraw(const std::byte* data, std::size_t bytes) noexcept;

  // The member's process, and whether every peer reads what lies in this rank's, as far as they have said so.
  const PeerArena& process(int member) const { return *arenas_[static_cast<std::size_t>(member)]; }
  bool memory_is_read();
  // Whether the member has left an operation before its end, or the group: what it shows may be overwritten.
  bool gave_up(int member) const;

  // `line`: own_line(turn).
  void publish(Line& line, std::uint64_t turn, Store store, bool asks = false) {
    line.publish(turn, store, asks);
    ring_all();
  }
  // Whether every peer has published `turn`, as this rank has. `cursor` remembers how far the look came; start it at 0. The own line is
  // not looked at: a peer's look may have taken it away, and to get it back from far cores costs as much as their answer.
  bool reached(std::uint64_t turn, std::uint32_t& cursor) const {
    if (cursor == peers_.size()) [[unlikely]]
      return true;
    while (peers_[cursor]->lines[turn & 1].reached(turn)) [[likely]] {
      if (++cursor == peers_.size()) return true;
    }
    return false;
  }
  // Of a turn that was reached: whether every peer has the same signature.
  bool signed_alike(std::uint64_t turn, std::uint64_t signature) const {
    for (const ControlBlock* peer : peers_) {
      if (peer->lines[turn & 1].signature != signature) [[unlikely]]
        return false;
    }
    return true;
  }
  std::vector<int> not_reached(std::uint64_t turn) const;

  void ring_all() {
    for (Doorbell* bell : peer_bells_) bell->ring(fence_);
  }
  void ring(Doorbell& bell) const { bell.ring(fence_); }
  Doorbell& bell_of(int member) const { return arenas_[static_cast<std::size_t>(member)]->bell(); }

  // Has anybody failed, or is one of `awaited` dead or gone? Ok when not.
  Status diagnose(const std::vector<int>& awaited) const;
  // For who waits for any of them: has one died without a farewell, or have all left?
  Status diagnose_anybody() const;
  // kPeerDied, or kPeerLeft of one that lives.
  Code gone(int member) const;
  // "rank 5 (pid 8123)", by global rank.
  std::string describe(int member) const;
  int global_rank(int member) const { return spec_.global_ranks[static_cast<std::size_t>(member)]; }

  void fail(const Status& why);
  // Before the caller hears that its operation will not end, as the group is closed.
  void abandon() noexcept;

  // Memory of this group in this rank's arena; lives until no peer can read it any more (host/limbo.h).
  Status allocate(std::size_t bytes, Block& out);
  void give_pages(const Block& block) { arena_->give_pages(block); }
  Status take_pages(const Block& block) { return arena_->take_pages(block); }

 private:
  explicit Members(GroupSpec spec) : rank_(spec.rank), size_(spec.size), spec_(std::move(spec)) {}
  // Makes what peers will see, and this rank's record of it.
  Status prepare(std::string& text);
  void tell_whether_memory_is_read();
  void expect_withdrawal(const Deadline& patience);
  bool left(int member) const;
  Status refused_here(const std::string& when, const Status& why) const;
  Status look_up(int member, Bootstrap& bootstrap, const Deadline& deadline, std::string& text) const;
  Status learn(int member, const std::string& text, const Deadline& deadline);
  // look_up() and learn() of a peer. One that gave up and has ended since may have said why in between; of one that was gone before this
  // process began, another process may take the place.
  Status find(int member, Bootstrap& bootstrap, const Deadline& deadline);

  // What every operation needs lies together.
  int rank_ = 0;
  int size_ = 0;
  std::uint64_t identity_ = 0;
  std::vector<ControlBlock*> blocks_;
  std::vector<const ControlBlock*> peers_;  // the blocks of the others
  std::vector<Doorbell*> peer_bells_;
  bool fence_ = false;
  int shown_processor_ = -1;

  GroupSpec spec_;
  HostArena* arena_ = nullptr;
  Block block_;
  Presence presence_;
  std::mutex owned_mutex_;
  std::vector<Block> owned_;
  std::atomic<bool> failed_{false};
  std::uint64_t generation_ = 0;
  std::size_t slot_bytes_ = 0;
  std::size_t ring_bytes_ = 0;
  std::size_t one_shot_bytes_ = 0;
  bool peers_elsewhere_ = true;  // in no peer's process this rank's
  bool processor_each_ = false;
  bool enough_processors_ = false;
  CpuSet cpus_;  // of all members together
  bool memory_is_read_ = false;
  // A peer's presence word; nullptr until its record is known.
  struct Reader {
    const std::byte* word = nullptr;
    std::uint64_t number = 0;
  };
  // They, and what they have mapped: known to who asks later whether any of them can still read or write this rank's memory.
  struct Peers {
    int rank = 0;
    std::vector<Reader> readers;
    std::vector<std::shared_ptr<PeerArena>> arenas;
    bool gone(const Deadline& patience) const;
  };
  HostArena::Unwritable peers_gone_;  // once all have met
  Peers peers_now() const { return {rank_, readers_, arenas_}; }
  std::vector<Reader> readers_;
  std::vector<std::shared_ptr<PeerArena>> arenas_;
  std::vector<std::int64_t> pids_;
};

}  // namespace customccl::shm
