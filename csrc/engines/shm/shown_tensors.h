#pragma once

#include <cstddef>
#include <vector>

#include "base/call.h"
#include "engines/shm/members.h"

namespace customccl::shm {

// Tensors that lie in their rank's arena (the backend allocated them) are not staged: the rank shows where they lie, and
// peers read them there.
//
// In the payload of its first line a rank writes where its input and its output begin in its arena. Peers learn it in phase 1.
// They may read the input in every phase from then on, the output where the algorithm says so. A rank writes over what it
// has shown only as the algorithm's phases allow, and the caller may do so as soon as the operation has ended. So
// an operation in which any rank shows anything takes one turn more, in which nothing is done: who has seen it published by
// every rank knows that all have finished reading (rule 2 of control_block.h). An operation that fails earlier may leave a peer
// reading what is being overwritten; that peer cannot see the last turn either, and fails as well.
enum class Shows { kNothing, kInputs, kInputsAndOutputs };

class ShownTensors {
 public:
  explicit ShownTensors(Members& members) : members_(members), places_(static_cast<std::size_t>(members.size())) {}

  // Before phase 0: which of its tensors this rank shows, of those that the algorithm's peers read.
  void begin(const Call& call, Shows shows) {
    if (shows != Shows::kNothing || shows_ != Shows::kNothing) look_at(call, shows);
  }
  // Writes it into the line of the operation's first turn.
  void show(Line& line) const {
    if (shows_ != Shows::kNothing) write_to(line);
  }
  // In phase 1: what the others show.
  Status find(const Call& call, std::uint64_t first_turn);

  // Where the first element of the member's input (output) lies, or nullptr: staged. Of peers known from phase 1 on.
  const std::byte* input(int member) const { return places_[static_cast<std::size_t>(member)].input; }
  const std::byte* output(int member) const { return places_[static_cast<std::size_t>(member)].output; }
  bool any() const { return any_; }

 private:
  struct Place {
    const std::byte* input = nullptr;
    const std::byte* output = nullptr;
  };
  void look_at(const Call& call, Shows shows);
  void write_to(Line& line) const;
  Place& own() { return places_[static_cast<std::size_t>(members_.rank())]; }
  const Place& own() const { return places_[static_cast<std::size_t>(members_.rank())]; }

  Members& members_;
  std::vector<Place> places_;
  Shows shows_ = Shows::kNothing;
  bool any_ = false;
};

}  // namespace customccl::shm
