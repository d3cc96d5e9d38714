#include "capi/error.h"

#include <array>
#include <cstring>
#include <string_view>

#include "base/first_bytes.h"

namespace customccl::capi {

namespace {

// Plain memory: no destructor at the end of a thread, and nothing to allocate when memory has run out.
struct LastError {
  int culprit = -1;
  char text[2048] = "";
};
thread_local LastError last_error;

constexpr std::array kCodeNames{"CUSTOMCCL_OK",      "CUSTOMCCL_INVALID_ARGUMENT", "CUSTOMCCL_MISMATCH",
                                "CUSTOMCCL_TIMEOUT", "CUSTOMCCL_PEER_DIED",        "CUSTOMCCL_PEER_LEFT",
                                "CUSTOMCCL_ABORTED", "CUSTOMCCL_CLOSED",           "CUSTOMCCL_UNREACHABLE",
                                "CUSTOMCCL_SYSTEM"};
static_assert(kCodeNames.size() == CUSTOMCCL_SYSTEM + 1);

}  // namespace

customccl_code remember(const Status& status) {
  last_error.culprit = status.culprit;
  const std::string_view message = first_bytes(status.message(), sizeof(last_error.text) - 1);
  std::memcpy(last_error.text, message.data(), message.size());
  last_error.text[message.size()] = '\0';
  return static_cast<customccl_code>(status.code);
}

}  // namespace customccl::capi

using customccl::capi::kCodeNames;
using customccl::capi::last_error;

const char* customccl_error_text(customccl_code code) {
  if (code < 0 || static_cast<std::size_t>(code) >= kCodeNames.size()) return "unknown customccl error code";
  return kCodeNames[static_cast<std::size_t>(code)];
}

const char* customccl_last_error(void) { return last_error.text; }

int32_t customccl_last_error_rank(void) { return last_error.culprit; }
