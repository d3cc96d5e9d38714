#pragma once

#include <bitset>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace customccl {

inline constexpr int kMaxCpus = 1024;
using CpuSet = std::bitset<kMaxCpus>;

// The processors this process may run on, now (sched_getaffinity).
CpuSet affinity();

// How many processors' worth of time the cgroup and its parents grant (version 1 or 2); 0 = no limit. Read at the first call.
double cgroup_cpu_limit();

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };
InstructionSet instruction_set();  // the widest the kernels may use here; CUSTOMCCL_ISA lowers it
std::string to_string(InstructionSet);

// Sets of processors that share a last-level cache, as the kernel tells (virtual machines may lie).
std::vector<CpuSet> cache_domains();
// What the last-level cache holds, in bytes; 32 MiB where it is not told.
std::size_t last_level_cache();
// Whether that cannot hold so many bytes at once. Up to 1 MiB it can: the size is not looked up.
inline bool exceeds_caches(std::size_t bytes) { return bytes > (1 << 20) && bytes >= last_level_cache(); }
std::string to_string(const CpuSet&);         // "0-3,8"
CpuSet parse_cpu_set(std::string_view text);  // the opposite; what it cannot read is left out

// Whether cores reach each other's caches only across a mesh, which takes long but carries much at once: Intel's servers.
bool cores_on_mesh();

// Whether string instructions write whole lines without having them come first, be they in another core's cache: AMD's Zen 5.
bool strings_write_lines();

// Whether a core that reads what another one has written has those lines for itself then, so that it writes them without asking for
// them. So it is on Zen 4 and Zen 5 (staging.h); not measured across a mesh.
inline bool readers_own_lines() { return !cores_on_mesh(); }

// Has the line of `address` come to be written.
inline void fetch_to_write(const void* address) {
#if defined(__x86_64__)
  // __builtin_prefetch would have the line come to be read, unless compiled for processors that are known to have this instruction.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

// One spin-wait hint to the processor.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace customccl
