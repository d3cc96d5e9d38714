#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "base/status.h"

namespace customccl {

// "No space left on device (errno 28)".
inline std::string errno_text(int error) {
  return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

// "<what>: <errno text>. <advice>": what was tried as a clause, what to do next as a sentence or nothing.
inline Status system_error(std::string_view what, int error, std::string_view advice = {}) {
  std::string message(what);
  message += ": " + errno_text(error) + ".";
  if (!advice.empty()) message.append(" ").append(advice);
  return {Code::kSystem, std::move(message)};
}

}  // namespace customccl
