#include "platform/cpu_topology.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

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

// The processors that share the highest-level cache of `cpu`; empty when the kernel does not say.
CpuSet last_level_cache(const std::string& root, std::size_t cpu) {
  const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
  CpuSet widest;
  int highest = 0;
  for (int index = 0;; ++index) {
    const std::string cache = folder + std::to_string(index);
    int level = 0;
    if (!(std::ifstream(cache + "/level") >> level)) return widest;
    std::string shared;
    if (level <= highest || !(std::ifstream(cache + "/shared_cpu_list") >> shared)) continue;
    highest = level;
    widest = parse_cpu_set(shared);
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
    const CpuSet shared = last_level_cache(root, cpu) & ~known;
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

std::size_t last_level_cache() {
  static const std::size_t bytes = [] {
    long found = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE  // glibc's
    found = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return found > 0 ? static_cast<std::size_t>(found) : std::size_t{32} << 20;
  }();
  return bytes;
}

std::vector<CpuSet> cache_domains() { return cache_domains_below("", affinity()); }

}  // namespace customccl
