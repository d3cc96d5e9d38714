#pragma once

#include <cstdint>
#include <string>
#include <utility>

// What went wrong, as a value. Errors become exceptions only at the torch boundary (csrc/c10d).

namespace customccl {

enum class Code : std::uint8_t {
  kOk,
  kInvalidArgument,  // refused on this rank before anything was sent; the group goes on
  kMismatch,         // the ranks called different things
  kTimeout,          // a deadline passed
  kPeerDied,         // a process of the group is gone
  kPeerLeft,         // a rank destroyed the group while others still used it
  kAborted,          // somebody called abort()
  kClosed,           // the group was closed on this rank
  kUnreachable,      // ranks cannot share memory
  kSystem,           // the operating system refused something
};

struct [[nodiscard]] Status {
  Code code = Code::kOk;
  int culprit = -1;     // global rank that caused it, or -1
  std::string message;  // a whole sentence or two, for a person

  Status() = default;
  Status(Code code_, std::string message_, int culprit_ = -1)
      : code(code_), culprit(culprit_), message(std::move(message_)) {}
  bool ok() const { return code == Code::kOk; }
};

}  // namespace customccl
