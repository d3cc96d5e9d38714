#pragma once

#include <string_view>

namespace customccl {

enum class LogLevel { kOff, kError, kWarning, kInfo, kDebug };

// One line on stderr: "[customccl warning pid 123] text". Silent beyond the level of CUSTOMCCL_LOG.
bool log_enabled(LogLevel level);
void log(LogLevel level, std::string_view text) noexcept;

// For the settings alone, which decide the level and so cannot ask log_enabled().
LogLevel log_level_named(std::string_view name);  // unknown names: kWarning
void write_log_line(LogLevel level, std::string_view text);

}  // namespace customccl
