#pragma once

#include <functional>

namespace customccl {

// Starts a detached thread called `name` (15 characters at most) that takes no signals: they belong to the program's own threads.
void start_background_thread(const char* name, std::function<void()> body);

}  // namespace customccl
