#include "c10d/tensor_checks.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/view.h"

namespace customccl::torch_shim {

[[gnu::cold, gnu::noinline]] void check_memory(const at::Tensor& tensor) {
  [[maybe_unused]] const void* data = tensor.const_data_ptr();  // torch may know why there is none
  // Not `data`: behind nothing, too, a view begins somewhere.
  const bool there = tensor.has_storage() && tensor.storage().data() != nullptr;
  TORCH_CHECK_VALUE(there || tensor.numel() == 0, "customccl got a tensor of ", tensor.numel(), " elements (sizes ",
                    tensor.sizes(), ") without memory: a fake one, or one whose storage was freed");
  if (tensor.numel() == 0) return;
  const std::size_t needed =
      at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(), tensor.storage_offset());
  TORCH_CHECK_VALUE(needed <= tensor.storage().nbytes(), "customccl got a tensor of ", tensor.numel(),
                    " elements (sizes ", tensor.sizes(), ") that needs a storage of ", needed, " bytes and has one of ",
                    tensor.storage().nbytes(), ": it was made smaller, or resize_() of the tensor failed");
}

// torch tells what is plain; else, where every stride steps over all that the smaller ones reach, none
// do; and what is left is counted out.
bool overlaps_itself(const at::Tensor& tensor) {
  const at::MemOverlap known = at::has_internal_overlap(tensor);
  if (known != at::MemOverlap::TooHard) return known == at::MemOverlap::Yes;
  std::vector<Dim> dims;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) == 0) return false;
    if (tensor.size(i) > 1) dims.push_back({tensor.size(i), tensor.stride(i)});
  }
  std::ranges::sort(dims, std::less<>(), &Dim::stride);
  std::int64_t last = 0;  // element that the dimensions so far reach
  bool nested = true;
  for (const Dim& dim : dims) {
    nested = nested && dim.stride > last;
    last += (dim.size - 1) * dim.stride;
  }
  if (nested) return false;
  if (tensor.numel() > last + 1) return true;
  std::vector<bool> taken(static_cast<std::size_t>(last) + 1);
  std::vector<std::int64_t> index(dims.size());
  for (std::size_t at = 0, turned = 0; turned < dims.size();) {
    if (taken[at]) return true;
    taken[at] = true;
    // On to the next element, as a mileage counter goes.
    for (turned = 0; turned < dims.size(); ++turned) {
      at += static_cast<std::size_t>(dims[turned].stride);
      if (++index[turned] < dims[turned].size) break;
      at -= static_cast<std::size_t>(dims[turned].size * dims[turned].stride);
      index[turned] = 0;
    }
  }
  return false;
}

}  // namespace customccl::torch_shim
