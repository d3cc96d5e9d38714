#pragma once

#include <cstdint>

#include "support/ranks.h"

namespace customccl::test {

// One rank of a random program: collectives of every kind run at once or posted, several in flight, waited for in any
// order or never, messages between them; every result checked. The same seed gives the same program on every rank; pauses and the
// order of waiting are each rank's own.
void random_program(const Rank& rank, Communicator& group, std::uint64_t seed, int steps);

}  // namespace customccl::test
