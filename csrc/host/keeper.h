#pragma once

#include <string>

#include "base/status.h"
#include "platform/process.h"

namespace customccl {

class HostArena;

// Starts the keeper: one thread per process, asleep in poll(2), that lives as long as the process. It owns the life word (so
// the word shows the death of the process, not of whichever thread made the first group) and hands the arena's descriptor to
// peers that connect. Returns when the life word is adopted and the socket listens.
Status start_keeper(HostArena& arena);

// Memory waits in limbo, or for the next tensor: the keeper shall look after it until none does.
void wake_keeper();

// The abstract socket at which the arena with this id is served. Who connects must have our uid and know the secret.
std::string keeper_address(const Id128& arena_id);

}  // namespace customccl
