#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <optional>

namespace customccl {

// How large this process may make a file, if there is a limit. Who goes beyond gets no error but is killed (SIGXFSZ): ask first.
inline std::optional<std::size_t> file_size_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace customccl
