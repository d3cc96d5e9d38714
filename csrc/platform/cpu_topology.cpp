#include "platform/cpu_topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "platform/byte_size.h"
#include "platform/once_per_process.h"

namespace customccl {
namespace {

// "5" or "0-3"; a part that is neither adds nothing.
void add_range(std::string_view part, CpuSet& set) {
  const char* const end = part.data() + part.size();
  unsigned first = 0;
  auto [at, error] = std::from_chars(part.data(), end, first);
  unsigned last = first;
  if (error == std::errc{} && at != end && *at == '-') {
    const auto second = std::from_chars(at + 1, end, last);
    at = second.ptr;
    error = second.ec;
  }
  if (error != std::errc{} || at != end) return;
  for (unsigned cpu = first; cpu <= last && cpu < kMaxCpus; ++cpu) set.set(cpu);
}

struct Cache {
  CpuSet shared;          // by these processors
  std::size_t bytes = 0;  // 0: not told
};

// The highest-level cache of `cpu`; of no processor when the kernel does not say.
Cache highest_cache(const std::string& root, std::size_t cpu) {
  const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  Cache found;
  int highest = 0;
  for (int index = 0;; ++index) {
    const std::string cache = folder + std::to_string(index);
    int level = 0;
    if (!(std::ifstream(cache + "/level") >> level)) return found;
    std::string shared;
    if (level <= highest || !(std::ifstream(cache + "/shared_cpu_list") >> shared)) continue;
    std::string size;
    std::ifstream(cache + "/size") >> size;
    highest = level;
    found = {parse_cpu_set(shared), parse_byte_size(size).value_or(0)};
  }
}

}  // namespace

CpuSet parse_cpu_set(std::string_view text) {
  CpuSet set;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    add_range(text.substr(begin, end - begin), set);
    begin = end + 1;
  }
  return set;
}

std::string to_string(const CpuSet& set) {
  std::string text;
  for (std::size_t cpu = 0; cpu < set.size(); ++cpu) {
    if (!set[cpu]) continue;
    std::size_t last = cpu;
    while (last + 1 < set.size() && set[last + 1]) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cpu);
    if (last > cpu) text += '-' + std::to_string(last);
    cpu = last;
  }
  return text;
}

std::vector<CpuSet> cache_domains_below(const std::string& root, const CpuSet& wanted) {
  std::vector<CpuSet> domains;
  CpuSet unknown;
  CpuSet known;
  for (std::size_t cpu = 0; cpu < wanted.size(); ++cpu) {
    if (!wanted[cpu] || known[cpu]) continue;
    const CpuSet shared = highest_cache(root, cpu).shared & ~known;
    if (!shared[cpu]) {
      unknown.set(cpu);
      continue;
    }
    domains.push_back(shared);
    known |= shared;
  }
  if (unknown.any()) domains.push_back(unknown & ~known);
  return domains;
}

std::size_t last_level_cache_below(const std::string& root, const CpuSet& wanted) {
  std::size_t first = 0;
  while (first < wanted.size() && !wanted[first]) ++first;
  constexpr std::size_t kPerProcessor = 32 << 20;
  const Cache cache = highest_cache(root, first);
  return cache.bytes != 0 ? std::min(cache.bytes, kPerProcessor * cache.shared.count()) : kPerProcessor;
}

std::size_t last_level_cache() {
  return made_once<[] { return last_level_cache_below("", affinity()); }>();
}

std::vector<CpuSet> cache_domains() { return cache_domains_below("", affinity()); }

}  // namespace customccl
