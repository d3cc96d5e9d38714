#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/reduce_op.h"
#include "platform/cpu.h"

namespace customccl::test {

// The instruction sets this processor can run.
inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::kBaseline, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= instruction_set()) sets.push_back(set);
  }
  return sets;
}

struct Case {
  DType dtype;
  ReduceOp op;
};

// Every pair that is defined.
inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DTypeInfo& type : kDTypes) {
    for (std::size_t op = 0; op < kReduceOpNames.size(); ++op) {
      if (is_defined(static_cast<ReduceOp>(op), type.dtype)) all.push_back({type.dtype, static_cast<ReduceOp>(op)});
    }
  }
  return all;
}

inline std::string to_string(const Case& c) { return std::string(name(c.dtype)) + "_" + std::string(name(c.op)); }

}  // namespace customccl::test
