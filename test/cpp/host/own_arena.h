#pragma once

#include <gtest/gtest.h>

#include "host/host_arena.h"

namespace customccl::test {

// The arena of this process.
inline HostArena& arena() {
  HostArena* made = nullptr;
  const Status status = HostArena::get(made);
  EXPECT_TRUE(status.ok()) << status.message();
  return *made;
}

}  // namespace customccl::test
