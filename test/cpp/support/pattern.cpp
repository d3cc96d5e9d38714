#include "support/pattern.h"

#include <algorithm>
#include <cstring>

#include "kernels/oracle.h"

namespace customccl::test {

Pattern::Pattern(DType dtype, std::uint64_t source, std::size_t needed)
    : element_(size_of(dtype)), period_(std::min(needed, kPeriod) * element_) {
  for (std::size_t i = 0; i * element_ < period_.size(); ++i) {
    std::byte* value = period_.data() + i * element_;
    fill(dtype, source, i, value);
    if (dtype == DType::kBool) *value &= std::byte{1};
  }
}

std::vector<std::byte> Pattern::take(std::size_t count) const {
  std::vector<std::byte> bytes(count * element_);
  copy_to(bytes);
  return bytes;
}

void Pattern::copy_to(std::span<std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size(); done += period_.size()) {
    std::memcpy(bytes.data() + done, period_.data(), std::min(period_.size(), bytes.size() - done));
  }
}

std::int64_t Pattern::first_difference(std::span<const std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size(); done += period_.size()) {
    const std::size_t length = std::min(period_.size(), bytes.size() - done);
    if (std::memcmp(bytes.data() + done, period_.data(), length) == 0) continue;
    std::size_t i = 0;
    while (bytes[done + i] == period_[i]) ++i;
    return static_cast<std::int64_t>((done + i) / element_);
  }
  return -1;
}

}  // namespace customccl::test
