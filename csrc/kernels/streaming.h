#pragma once

#include <cstddef>

// Non-temporal copies for callers that make many of them and fence once.

namespace customccl::kernels {

// Copies like memcpy, but whole cache lines of dst bypass the caches. Before anything is published: streaming_fence().
void streaming_copy(std::byte* dst, const std::byte* src, std::size_t bytes);

// Orders all streaming stores of this thread before its later stores. A release store alone does not on x86.
void streaming_fence();

}  // namespace customccl::kernels
