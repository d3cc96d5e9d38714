#include "kernels/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/cache_line.h"
#include "kernels/runs.h"
#include "kernels/streaming.h"
#include "kernels/strings.h"
#include "platform/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace customccl {
namespace kernels {
namespace {

#if defined(__x86_64__)
constexpr std::size_t kLong = 64 << 10;

// Bytes from dst to where a line begins.
std::size_t before_line(const std::byte* dst) { return -reinterpret_cast<std::uintptr_t>(dst) % kCacheLine; }

// Across a mesh, lines so far ahead come to be written meanwhile: peers' caches hold them where this is staging. (docs/measured-decisions.md)
constexpr std::size_t kAhead = 512;
constexpr std::size_t kWorthFetching = 8 << 10;

// Plain stores by registers, where memcpy would use string instructions. Those crawl where the target does not begin a line, and
// where a line comes from another core's cache (docs/measured-decisions.md). At least a line.
[[gnu::target("avx2")]] void copy_by_registers(std::byte* dst, const std::byte* src, std::size_t bytes, Origin origin) {
  constexpr std::size_t kStep = 2 * kCacheLine;
  const std::size_t head = before_line(dst);
  std::memcpy(dst, src, kCacheLine);
  dst += head;
  src += head;
  bytes -= head;
  const bool fetch = bytes >= kWorthFetching && cores_on_mesh();
  std::size_t at = 0, end = 0;
  for (Runs runs(bytes, origin, kRunStep); runs.next(at, end);) {
    for (; at + kStep <= end; at += kStep) {
      if (fetch) {
        fetch_to_write(dst + at + kAhead);
        fetch_to_write(dst + at + kAhead + kCacheLine);
      }
      const __m256i* from = reinterpret_cast<const __m256i*>(src + at);
      __m256i* to = reinterpret_cast<__m256i*>(dst + at);
      const __m256i a = _mm256_loadu_si256(from);
      const __m256i b = _mm256_loadu_si256(from + 1);
      const __m256i c = _mm256_loadu_si256(from + 2);
      const __m256i d = _mm256_loadu_si256(from + 3);
      _mm256_store_si256(to, a);
      _mm256_store_si256(to + 1, b);
      _mm256_store_si256(to + 2, c);
      _mm256_store_si256(to + 3, d);
    }
  }
  std::memcpy(dst + at, src + at, bytes - at);
}

// The first line apart, so that whole ones follow.
void copy_lines_by_string(std::byte* dst, const std::byte* src, std::size_t bytes) {
  const std::size_t head = before_line(dst);
  std::memcpy(dst, src, kCacheLine);
  copy_by_string(dst + head, src + head, bytes - head);
}

bool registers_are_faster(const std::byte* dst, std::size_t bytes, Origin origin) {
  static const bool can = instruction_set() >= InstructionSet::kAvx2;
  return can && (bytes <= kLong || in_rows(origin, bytes) || before_line(dst) != 0);
}
#endif

}  // namespace

void streaming_copy(std::byte* dst, const std::byte* src, std::size_t bytes, [[maybe_unused]] Origin origin) {
#if defined(__x86_64__)
  // A partly written line would be combined with its old bytes by a slow read, so both ends are plain.
  const std::size_t head = std::min(bytes, before_line(dst));
  const std::size_t lines = (bytes - head) / kCacheLine;
  const std::size_t done = head + lines * kCacheLine;
  if (head != 0) std::memcpy(dst, src, head);
  std::size_t at = 0, end = 0;
  for (Runs runs(lines * kCacheLine, origin, kRunStep); runs.next(at, end);) {
    stream_lines(dst + head + at, src + head + at, (end - at) / kCacheLine);
  }
  if (done != bytes) std::memcpy(dst + done, src + done, bytes - done);
#else
  if (bytes != 0) std::memcpy(dst, src, bytes);  // arm64: its non-temporal store is only a hint
#endif
}

void streaming_fence() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace kernels

void copy_much(std::byte* dst, const std::byte* src, std::size_t bytes, Store store, Origin origin) {
  if (store == Store::kPlain) {
#if defined(__x86_64__)
    if (bytes > kernels::kStringsAbove && strings_write_lines()) {
      return kernels::copy_lines_by_string(dst, src, bytes);
    }
    if (kernels::registers_are_faster(dst, bytes, origin)) {
      return kernels::copy_by_registers(dst, src, bytes, origin);
    }
#endif
    std::memcpy(dst, src, bytes);
    return;
  }
  kernels::streaming_copy(dst, src, bytes, origin);
  kernels::streaming_fence();
}

}  // namespace customccl
