#include "platform/log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/attempt.h"
#include "platform/settings.h"

namespace customccl {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames{"off", "error", "warning", "info", "debug"};

}  // namespace

LogLevel log_level_named(std::string_view name) {
  const auto found = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  return found == kLevelNames.end() ? LogLevel::kWarning : static_cast<LogLevel>(found - kLevelNames.begin());
}

// One write(2) per line, so that the lines of many ranks on one terminal or pipe do not mix.
void write_log_line(LogLevel level, std::string_view text) {
  std::string line = "[customccl ";
  line += kLevelNames[static_cast<std::size_t>(level)];
  line += " pid " + std::to_string(::getpid()) + "] ";
  line += text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;  // nobody left to tell
}

bool log_enabled(LogLevel level) {
  static const LogLevel limit = log_level_named(settings().log);
  return level != LogLevel::kOff && level <= limit;
}

void log(LogLevel level, std::string_view text) noexcept {
  // Without memory it is one line less.
  attempt([&] {
    if (log_enabled(level)) write_log_line(level, text);
  });
}

}  // namespace customccl
