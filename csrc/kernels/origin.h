#pragma once

#include <cstdint>

namespace customccl {

// Where the bytes that are read lie, as far as the caller knows. What non-temporal stores have written lies in memory. From there more
// comes at once when it is read at four places in turn: 64 KiB that another process has written so in 3.0 us instead of 3.8 (cores of
// two caches), 1 MiB in 36 us instead of 45. From caches it is no faster, or slower (16 KiB 0.54 us instead of 0.47).
enum class Origin : std::uint8_t { kCache, kMemory };

}  // namespace customccl
