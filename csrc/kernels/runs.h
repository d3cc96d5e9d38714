#pragma once

#include <cstddef>
#include <utility>

#include "kernels/origin.h"

namespace customccl::kernels {

// The order in which `total` bytes are gone through: from cache one after the other, in one run or step by step; from memory a step in
// each of four rows in turn.
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
    if (origin == Origin::kMemory) length_ = total / kRows / kPage * kPage;
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
