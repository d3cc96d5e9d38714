#pragma once

#include <cstddef>

namespace customccl {

// What processors move between caches, and what non-temporal stores fill as a whole.
inline constexpr std::size_t kCacheLine = 64;

}  // namespace customccl
