#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/cpu.h"

namespace customccl {

// "0-3,8" -> {0, 1, 2, 3, 8}, the kernel's list format. Ends at the first part it cannot read; processors beyond kMaxCpus
// are left out.
CpuSet parse_cpu_list(std::string_view text);

// cache_domains() from the files below `root` (empty for the real ones). Processors of `wanted` of which nothing is known
// form one domain together.
std::vector<CpuSet> cache_domains_below(const std::string& root, const CpuSet& wanted);

}  // namespace customccl
