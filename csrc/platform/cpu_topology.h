#pragma once

#include <string>
#include <vector>

#include "platform/cpu.h"

namespace customccl {

// cache_domains() from the files below `root` (empty for the real ones). Processors of `wanted` of which nothing is
// known form one domain together.
std::vector<CpuSet> cache_domains_below(const std::string& root, const CpuSet& wanted);

}  // namespace customccl
