#include "platform/cpu.h"

#include <sched.h>

#include <algorithm>
#include <memory>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "platform/log.h"
#include "platform/settings.h"

namespace customccl {
namespace {

InstructionSet found_in_hardware() {
#if defined(__x86_64__)
  // Half-precision conversion is asked of the processor itself: not every supported compiler knows its name.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1U << 29)) != 0;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx2 && avx512) return InstructionSet::kAvx512;
  if (avx2) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

#if defined(__x86_64__)
constexpr unsigned kZen5 = 0x1A;

unsigned family() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  const unsigned base = eax >> 8 & 0xF;
  return base == 0xF ? base + (eax >> 20 & 0xFF) : base;
}
#endif

InstructionSet allowed_by_user() {
  for (const InstructionSet set : {InstructionSet::kBaseline, InstructionSet::kAvx2}) {
    if (settings().isa == to_string(set)) return set;
  }
  return InstructionSet::kAvx512;
}

InstructionSet choose() {
  const InstructionSet found = found_in_hardware();
  if (settings().isa != "auto" && allowed_by_user() > found) {
    log(LogLevel::kWarning, "CUSTOMCCL_ISA=" + settings().isa + " asks for more than this processor has; " +
                                to_string(found) + " is used.");
  }
  return std::min(found, allowed_by_user());
}

}  // namespace

CpuSet affinity() {
  CpuSet set;
  // The kernel wants room for all processors it could have, which may be more than kMaxCpus.
  constexpr int kRoom = 16 * kMaxCpus;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(kRoom), [](cpu_set_t* raw) { CPU_FREE(raw); });
  const std::size_t bytes = CPU_ALLOC_SIZE(kRoom);
  if (mask != nullptr && ::sched_getaffinity(0, bytes, mask.get()) == 0) {
    for (std::size_t cpu = 0; cpu < kMaxCpus; ++cpu) set[cpu] = CPU_ISSET_S(cpu, bytes, mask.get());
  }
  if (set.none()) {  // refused, or only processors beyond kMaxCpus: the count is right even if the numbers are not
    const std::size_t count = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMaxCpus);
    for (std::size_t cpu = 0; cpu < count; ++cpu) set.set(cpu);
  }
  return set;
}

InstructionSet instruction_set() {
  static const InstructionSet chosen = choose();
  return chosen;
}

bool cores_on_mesh() {
#if defined(__x86_64__)
  static const bool intel = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  return intel;
#else
  return false;
#endif
}

bool strings_write_lines() {
#if defined(__x86_64__)
  static const bool can = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") != 0 && family() >= kZen5;
  }();
  return can;
#else
  return false;
#endif
}

std::string to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::kBaseline: return "baseline";
    case InstructionSet::kAvx2: return "avx2";
    case InstructionSet::kAvx512: return "avx512";
  }
  return "unknown";
}

}  // namespace customccl
