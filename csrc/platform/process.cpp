#include "platform/process.h"

#include <pthread.h>
#include <sys/random.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <random>

namespace customccl {

std::atomic<std::uint64_t> fork_count{0};

Id128 random_id() {
  Id128 id{};
  for (;;) {
    const ssize_t got = ::getrandom(id.data(), sizeof(id), 0);  // requests up to 256 bytes come whole
    if (got == static_cast<ssize_t>(sizeof(id))) return id;
    if (got < 0 && errno != EINTR) break;
  }
  std::random_device device;  // getrandom is filtered: rdrand or /dev/urandom
  for (std::uint64_t& word : id) word = (std::uint64_t{device()} << 32) | device();
  return id;
}

std::string to_hex(const Id128& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint64_t word : id) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(word >> shift) & 0xf];
  }
  return text;
}

void watch_for_fork() {
  static std::once_flag once;
  std::call_once(
      once, [] { ::pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); }); });
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "unknown-host";
  return name;
}

}  // namespace customccl
