#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <span>
#include <string>

#include "c10d/compat.h"
#include "engines/group_spec.h"

namespace customccl::torch_shim {

// What torch's profiler and execution traces note of a communication: torch calls it "param comms".
struct Comms {
  const GroupSpec& group;
  std::string group_name;
  std::string group_description;
  std::int64_t sequence;
  bool p2p;
  bool async;
  ::c10d::OpType type;
  at::TensorList inputs;
  at::TensorList outputs;
  std::span<const std::int64_t> input_splits;  // all_to_all
  std::span<const std::int64_t> output_splits;
};

// Runs `body` inside such a note. Only for when somebody listens: it allocates.
void with_comms_record(const Comms& comms, const std::function<void()>& body);

}  // namespace customccl::torch_shim
