#pragma once

#include <string>

#include "base/status.h"
#include "capi/customccl.h"

namespace customccl::capi {

// What a token says, "customccl1:<id>:<directory>": the id is 128 random bits in hexadecimal, the directory is where the ranks meet.
// The directory travels with the token because ranks may be started with different environments.
struct Token {
  std::string id;
  std::string directory;

  // Fresh, with the first of XDG_RUNTIME_DIR, TMPDIR and /tmp that is a directory in which files can be made.
  static Status make(Token& out);
  static Status parse(const customccl_token& text, Token& out);
  void write(customccl_token& out) const;
};

}  // namespace customccl::capi
