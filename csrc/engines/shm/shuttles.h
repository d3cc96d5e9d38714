#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engines/shm/geometry.h"

namespace customccl::shm {

// Two stretches of memory that travel between a pair of ranks, one from the arena of each, as seen by one of the two.
//
// The cheapest line to write is one that this core has read last (staging.h). So who has a shuttle writes a message into it, piece by
// piece; frames in its ring tell of the pieces, and the last one hands the shuttle over. Who has read that has it, and answers in it.
// Two ranks that send to each other so use the same memory again and again. One that only sends has soon none left, and sends
// through its ring, which for that is the better way. (There and back, near: 4 KiB each way 0.88 of the time, 8 and 16 KiB 0.71, 32 KiB
// 0.82, 64 KiB 0.84, 128 and 256 KiB 0.9, 512 KiB 0.72 to 0.93.)
//
// At any time one rank has a shuttle, or a message in it is on its way. Only who has it writes; what is on its way is read by the
// receiver alone, after the frame that tells of it, and the sender touches it no more. So nothing in it needs to be synchronised.
class Shuttles {
 public:
  static constexpr std::size_t kMost = 512 << 10;  // bytes

  // Of messages of so many bytes on. Smaller ones lie in few lines, which both cores' first-level caches hold.
  static constexpr std::size_t kLeastMessage = 1 << 10;

  // Where a piece lies, in a frame: 0 behind the frame.
  using Place = std::uint16_t;

  void set_bytes(std::size_t bytes) { bytes_ = bytes; }
  // The one from the arena of this rank, or of its peer, now known here.
  void add(bool own, std::byte* memory) {
    memory_[own ? kOwn : kPeers] = memory;
    if (own) push(kOwn);
  }

  // Begins a message, if there is a shuttle that it fits into: the one that has come last. One that had begun, but has no piece, ends; of
  // no bytes, nothing else begins.
  bool board(std::size_t bytes) {
    if (aboard_) push(writing_);
    aboard_ = count_ != 0 && bytes >= kLeastMessage && bytes <= bytes_;
    if (aboard_) writing_ = mine_[--count_];
    used_ = 0;
    return aboard_;
  }
  bool aboard() const { return aboard_; }
  // Where the next piece goes.
  std::byte* room() const { return memory_[writing_] + used_; }
  // That piece, of so many bytes, is there.
  Place put(std::size_t bytes, bool last) {
    const auto place =
        static_cast<Place>(kIn | (last ? kLast : 0) | (writing_ == kOwn ? kWriters : 0) | used_ / kCacheLine);
    used_ += round_up(bytes, kCacheLine);
    if (last) aboard_ = false;
    return place;
  }

  // Whether other pieces of the same message follow.
  static bool goes_on(Place place) { return (place & kIn) != 0 && (place & kLast) == 0; }
  // A piece of the peer's, or nullptr where none can be.
  const std::byte* at(Place place, std::size_t bytes) const {
    const std::byte* memory = memory_[index_of(place)];
    const std::size_t begin = (place & kUnits) * kCacheLine;
    return memory != nullptr && begin <= bytes_ && bytes <= bytes_ - begin ? memory + begin : nullptr;
  }
  // It has been read.
  void taken(Place place) {
    if ((place & kLast) != 0) push(index_of(place));
  }

 private:
  static constexpr unsigned kIn = 1 << 15, kLast = 1 << 14, kWriters = 1 << 13, kUnits = kWriters - 1;
  static_assert((kUnits + 1) * kCacheLine >= kMost);
  enum Index : std::uint8_t { kOwn, kPeers };

  static Index index_of(Place place) { return (place & kWriters) != 0 ? kPeers : kOwn; }
  void push(Index index) {
    if (count_ < mine_.size()) mine_[count_++] = index;  // more of them only a peer claims that is none of ours
  }

  std::size_t bytes_ = 0;
  std::array<std::byte*, 2> memory_{};
  std::array<Index, 2> mine_{};  // in the order in which they came
  std::size_t count_ = 0;
  bool aboard_ = false;
  Index writing_ = kOwn;  // in which the message lies
  std::size_t used_ = 0;  // bytes of it
};

}  // namespace customccl::shm
