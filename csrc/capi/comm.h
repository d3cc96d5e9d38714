#pragma once

#include <memory>

#include "capi/customccl.h"
#include "core/communicator.h"

// What a customccl_comm points to. Thread rule: constant from init to destroy.
struct customccl_comm {  // NOLINT(readability-identifier-naming): the name that C sees
  std::shared_ptr<customccl::Communicator> group;
};
