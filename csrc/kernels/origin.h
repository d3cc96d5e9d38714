#pragma once

#include <cstdint>

namespace customccl {

// Where the bytes that are read lie, as far as the caller knows, from near to far: in a cache of the reader's, or in one of a peer's core
// that has written them; or, after non-temporal stores, in memory. Some come faster when they are read at four places in turn (runs.h).
enum class Origin : std::uint8_t { kCache, kPeer, kMemory };

}  // namespace customccl
