#pragma once

#include "base/status.h"
#include "engines/group_spec.h"
#include "platform/clock.h"

// The sentences about a group and its calls: which, on which rank, awaited whom for how long, and what to do.

namespace customccl {

// A group that was not made, and why.
Status setup_error(const GroupSpec& spec, const Deadline& deadline, const Status& why);

}  // namespace customccl
