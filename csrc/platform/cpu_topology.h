#pragma once

#include <string>
#include <vector>

#include "platform/cpu.h"

namespace customccl {

// cache_domains() from the files below `root` (empty for the real ones). Processors of `wanted` of which nothing is
// known form one domain together.
std::vector<CpuSet> cache_domains_below(const std::string& root, const CpuSet& wanted);

// last_level_cache() likewise: that of the first processor of `wanted`, as reading of all takes milliseconds on large machines.
// sysconf(3) would tell all caches of a processor package together (320 MiB where each is 32 MiB). A virtual machine of a few
// processors is told the whole cache of its host (480 MiB for two), of which others have their part: not more than 32 MiB each.
std::size_t last_level_cache_below(const std::string& root, const CpuSet& wanted);

}  // namespace customccl
