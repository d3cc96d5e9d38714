#pragma once

#include <functional>

#include "base/status.h"

namespace customccl {

// Starts a detached thread called `name` (15 characters at most) that takes no signals: they belong to the program's own threads.
// kSystem: the system starts no more threads; `body` is gone, and nothing has changed.
Status start_background_thread(const char* name, std::function<void()> body);

}  // namespace customccl
