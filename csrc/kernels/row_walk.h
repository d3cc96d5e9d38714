#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/view.h"

namespace customccl::kernels {

// A walk through a strided layout row by row, a row being a run along the innermost dimension. The start costs one
// division per dimension; from there an odometer of the outer dimensions only adds and compares. Offsets and steps
// count elements.
class RowWalk {
 public:
  // At element `index` in logical order. There is at least one dimension.
  RowWalk(std::span<const Dim> dims, std::size_t index) : outer_(dims.first(dims.size() - 1)), row_(dims.back()) {
    auto rest = static_cast<std::int64_t>(index);
    column_ = rest % row_.size;
    rest /= row_.size;
    for (std::size_t d = outer_.size(); d-- > 0;) {
      position_[d] = rest % outer_[d].size;
      rest /= outer_[d].size;
      offset_ += position_[d] * outer_[d].stride;
    }
  }

  std::int64_t offset() const { return offset_ + column_ * row_.stride; }
  std::int64_t left_in_row() const { return row_.size - column_; }
  std::int64_t row_size() const { return row_.size; }
  std::int64_t stride() const { return row_.stride; }

  // From one row to the next, where the dimension around the rows goes on; and how many whole rows it still has.
  std::int64_t row_step() const { return outer_.empty() ? 0 : outer_.back().stride; }
  std::int64_t whole_rows() const {
    if (outer_.empty() || column_ != 0) return 0;
    return outer_.back().size - position_[outer_.size() - 1];
  }

  // To the beginning of the row `rows` further on: 1, or at most whole_rows().
  void advance(std::int64_t rows) {
    column_ = 0;
    for (std::size_t d = outer_.size(); d-- > 0; rows = 1) {
      offset_ += rows * outer_[d].stride;
      position_[d] += rows;
      if (position_[d] < outer_[d].size) return;
      offset_ -= position_[d] * outer_[d].stride;
      position_[d] = 0;
    }
  }

 private:
  // No tensor has more dimensions: each has at least two elements (Layout), and an index fits 63 bits.
  static constexpr std::size_t kMaxDims = 64;

  std::span<const Dim> outer_;
  Dim row_;
  std::int64_t column_ = 0;
  std::int64_t offset_ = 0;                      // of the row's beginning
  std::array<std::int64_t, kMaxDims> position_;  // only outer_.size() of them are used
};

}  // namespace customccl::kernels
