#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/call.h"
#include "engines/shm/members.h"
#include "engines/shm/pair_counts.h"
#include "engines/shm/staged.h"

namespace customccl::shm {

// Tensors that are not staged: the rank shows where they lie, and peers read or write them there. Those are
//
//   tensors in the rank's arena (the backend allocated them), which every peer has mapped;
//   large ones anywhere in the memory of the rank's process, of operations in which every rank has something for every other one,
//   where every peer may read that memory (process_vm_readv(2)) and it is faster: one copy instead of two, but by the reader alone.
//
// In the payload of its first line a rank writes where its input and its output begin. Peers learn it in phase 1.
// They may read the input in every phase from then on, the output where the algorithm says so; or they write their results into it,
// where it lies alone in its pages and no peer is in this process: this rank can take it away from them then. A rank writes over what it
// has shown only as the algorithm's phases allow, and the caller may do so as soon as the operation has ended. So
// an operation in which any rank shows anything takes one turn more, in which nothing is done: who has seen it published by
// every rank knows that all have finished reading (rule 2 of control_block.h).
//
// An operation that fails, or is given up, may leave a peer reading what is being overwritten. Usually that peer cannot see the last turn.
// Where it can, as only the wait for the others was given up, it sees that too: it looks when it has read all (still_shown), and
// fails as well. A dead rank's arena stays as it was; of its process nothing comes that is not its own (PeerArena::read_memory).
//
// It may also leave a peer writing, or one that was stopped and goes on much later. So before the caller hears of it, an output that was
// shown to be written becomes memory of this process alone, at the same address and with the same contents (HostArena::withdraw). What
// peers still write goes to the pages that were there, which serve nothing else until every peer has closed the group or died.
enum class Shows { kNothing, kInputs, kInputsAndOutputs };

class ShownTensors {
 public:
  ShownTensors(Members& members, const PairCounts& pairs)
      : members_(members), pairs_(pairs), places_(static_cast<std::size_t>(members.size())) {}

  // Before phase 0: which of its tensors this rank shows, of those that the algorithm's peers read. in_caches: all ranks' tensors fit in.
  void begin(const Call& call, Shows shows, bool in_caches) {
    in_caches_ = in_caches;
    if (shows != Shows::kNothing || shows_ != Shows::kNothing) look_at(call, shows);
  }
  // Two ranks that have no more bytes than this for each other show nothing. The ranks need not agree about it.
  std::size_t little() const;
  // Writes it into the line of the operation's first turn.
  void show(const Call& call, Line& line) const {
    if (shows_ != Shows::kNothing) write_to(call, line);
  }
  // In phase 1: what the others show.
  Status find(const Call& call, std::uint64_t first_turn);

  // Where the first element of the member's input (output) lies; nothing: it is staged. Of peers known from phase 1 on.
  const std::optional<Staged>& input(int member) const { return places_[static_cast<std::size_t>(member)].input; }
  const std::optional<Staged>& output(int member) const { return places_[static_cast<std::size_t>(member)].output; }
  // Where the output of that member begins, into which every peer writes what it has reduced; nullptr: the member reads it there.
  std::byte* written(int member) const { return places_[static_cast<std::size_t>(member)].written; }
  bool shows_input() const { return own().input.has_value(); }
  bool shows_output() const { return own().output.has_value(); }
  bool any() const { return any_; }

  // Copies `bytes` from the process of the member that shows them there, or remembers that it could not.
  void read(const Staged& from, std::byte* to, std::size_t bytes);
  // After a phase in which that was done. Not ok: some could not be read.
  Status all_read();
  // When all have read everything. Not ok: a peer has gone on before, in spite of what it shows, and nothing read there can be trusted.
  Status still_shown() const;

  // Before the caller hears that the operation will not end.
  void withdraw(const Call& call) noexcept;

  // Whether all ranks show their inputs. Then nothing has to fit into a slot, and chunks are so many bytes for each reader: large, as
  // each takes a turn, and not larger, as nobody looks for failures meanwhile.
  bool all() const { return all_; }
  static constexpr std::size_t kChunk = 4 << 20;

 private:
  struct Place {
    std::optional<Staged> input;
    std::optional<Staged> output;
    std::byte* written = nullptr;
  };
  void look_at(const Call& call, Shows shows);
  std::size_t least() const;
  bool too_small(const Call& call) const;
  bool lie_elsewhere(const Call& call) const;
  void write_to(const Call& call, Line& line) const;
  std::optional<Staged> place_of(std::span<const View> views, const Call& call) const;
  std::byte* writable(const Call& call) const;
  std::optional<Staged> place_told(int member, std::uint64_t word, std::size_t bytes) const;
  bool can_be_read(const std::byte* begin, std::size_t bytes) const;
  std::size_t input_count(const Call& call, int member) const;
  bool in_line(const Call& call, int member) const;
  bool of_two(const Call& call) const;
  Place& own() { return places_[static_cast<std::size_t>(members_.rank())]; }
  const Place& own() const { return places_[static_cast<std::size_t>(members_.rank())]; }

  Members& members_;
  const PairCounts& pairs_;
  std::vector<Place> places_;
  Shows shows_ = Shows::kNothing;
  bool in_caches_ = true;
  bool any_ = false;
  bool all_ = false;
  // The first that could not be read, and why (an errno).
  int unread_ = -1;
  int unread_error_ = 0;
};

}  // namespace customccl::shm
