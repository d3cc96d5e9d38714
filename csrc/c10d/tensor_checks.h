#pragma once

#include <ATen/core/Tensor.h>

// What only looking at a tensor's memory tells.

namespace customccl::torch_shim {

// ValueError for a tensor with elements and no memory: a fake one, or one whose storage was freed.
void check_memory(const at::Tensor& tensor);

// Whether two of its elements share memory, as in an expanded tensor.
bool overlaps_itself(const at::Tensor& tensor);

}  // namespace customccl::torch_shim
