#pragma once

#include <functional>
#include <vector>

#include "host/host_arena.h"

namespace customccl {

// Shared memory of groups that were closed here while peers may still read it, or write there. A block is given back once `unreadable` says
// that every peer has closed its side too, or is dead. close() therefore never waits. The keeper looks now and then while
// anything is here; making a group looks too. Thread-safe.
void bury(std::vector<Block> blocks, std::function<bool()> unreadable);

// Gives back what can be. True when nothing is left.
bool reclaim_limbo();

}  // namespace customccl
