#include "platform/process.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <mutex>
#include <random>
#include <sstream>

#include "platform/once_per_process.h"

namespace customccl {

std::atomic<std::uint64_t> fork_count{0};

namespace {

// Since the start of the machine, in the ticks of /proc.
std::uint64_t ticks_now() {
  timespec now{};
  if (::clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const auto per_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<std::uint64_t>(now.tv_sec) * per_second +
         static_cast<std::uint64_t>(now.tv_nsec) * per_second / 1'000'000'000;
}

// When this process started; 0 where the system does not tell. proc(5): the 22nd field, of which the second, in parentheses, may
// have anything in it.
std::uint64_t start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t ticks = 0;
  fields >> ticks;
  return ticks;
}

}  // namespace

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
  std::string word = name;
  std::replace_if(word.begin(), word.end(), [](char letter) { return letter <= ' ' || letter > '~'; }, '_');
  return word;
}

// Never destroyed: threads may still ask while the process exits.
const std::string& boot_id() {
  return made_once<[] {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string text;
    std::getline(file, text);
    return text.empty() ? std::string(kUnknownBoot) : text;
  }>();
}

std::string moment_now() { return boot_id() + ':' + std::to_string(ticks_now()); }

bool before_this_process(const std::string& moment) {
  const std::size_t colon = moment.rfind(':');
  if (colon == std::string::npos || moment.substr(0, colon) != boot_id() || boot_id() == kUnknownBoot) return false;
  std::uint64_t ticks = 0;
  std::istringstream(moment.substr(colon + 1)) >> ticks;
  return ticks != 0 && ticks < start_ticks();
}

}  // namespace customccl
