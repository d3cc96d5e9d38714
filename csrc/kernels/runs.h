#pragma once

#include <cstddef>
#include <utility>

#include "kernels/origin.h"
#include "platform/cpu.h"

namespace customccl::kernels {

// Whether so many bytes come faster at four places in turn, as a processor reads ahead at each of them. They do
//   from memory         64 KiB that another process has written by non-temporal stores 3.0 us instead of 3.8, 1 MiB 36 us instead of 45
//                       (AMD EPYC, cores of two caches)
//   from a peer's core  across a mesh: all_reduce, all_gather and all_to_all of 64 KiB 1.1x, broadcast of 64 KiB and 1 MiB 1.2x, messages
//                       of 256 KiB to 1 MiB, in pieces of 16 KiB, 1.06x (Intel Xeon); else they come slower: 16 KiB 0.54 us instead of
//                       0.47 (AMD EPYC, near cores)
inline bool in_rows(Origin origin, std::size_t total) {
  constexpr std::size_t kFromPeers = 16 << 10;
  return origin == Origin::kMemory || (origin == Origin::kPeer && total >= kFromPeers && cores_on_mesh());
}

// The order in which `total` bytes are gone through: one after the other, in one run or step by step; or, in_rows(), a step in each of
// four rows in turn.
//
//   row 0   |step 0|step 4|step 8|....     rows of whole pages, as that is how far processors read ahead
//   row 1   |step 1|step 5|....
//   row 2   |step 2|....
//   row 3   |step 3|....
//   rest    the last run; it comes always, and may be empty
class Runs {
 public:
  // `step` divides a page.
  Runs(std::size_t total, Origin origin, std::size_t step, bool stepwise = false) : total_(total), step_(step) {
    if (in_rows(origin, total)) length_ = total / kRows / kPage * kPage;
    if (length_ != 0) {
      rows_ = kRows;
    } else if (stepwise) {
      length_ = total / step * step;
    }
  }

  // Bytes [begin, end); false when all are through.
  bool next(std::size_t& begin, std::size_t& end) {
    if (at_ < length_) {
      begin = row_ * length_ + at_;
      end = begin + step_;
      if (++row_ == rows_) {
        row_ = 0;
        at_ += step_;
      }
      return true;
    }
    if (std::exchange(over_, true)) return false;
    begin = rows_ * length_;
    end = total_;
    return true;
  }
  // Whether that was the last.
  bool over() const { return over_; }

 private:
  static constexpr std::size_t kRows = 4;
  static constexpr std::size_t kPage = 4096;

  std::size_t total_, step_;
  std::size_t rows_ = 1, length_ = 0;  // of each row
  std::size_t row_ = 0, at_ = 0;
  bool over_ = false;
};

// Bytes of a step: 128 to 256 do, 512 are 1.1x, 1 KiB 1.2x slower.
inline constexpr std::size_t kRunStep = 256;

}  // namespace customccl::kernels
