#pragma once

#include "core/communicator.h"

namespace customccl::torch_shim {

// A barrier that says who did not come. Every rank tells rank 0 of the group that it is here, and rank 0 answers once all have come:
// two messages per rank. Only rank 0 looks at `limit`, so that its error, which names the missing, comes first; it then ends the
// group, and the others raise too, after the group's own timeout at the latest.
//
// limit: up to zero, rank 0 fails at once; but with `wait_all_ranks`, which names all missing ranks, zero means the group's timeout.
// All this, and the texts, are those of torch's gloo backend, which programs and tests know. Numbers in them are global ranks.
void monitored_barrier(Communicator& group, Nanos limit, bool wait_all_ranks);

}  // namespace customccl::torch_shim
