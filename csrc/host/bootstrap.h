#pragma once

#include <string>

#include "base/status.h"
#include "platform/clock.h"

namespace customccl {

// How the ranks of a group find each other: a place where each puts a few short values that the others wait for. Used while a
// group is made, never afterwards. Implemented over a c10d Store, a directory, or a map shared by threads.
// Thread rule: used by one thread at a time.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual Status put(const std::string& key, const std::string& value) = 0;
  // Waits until somebody has put `key`. kTimeout when nobody has by the deadline.
  virtual Status get(const std::string& key, const Deadline& deadline, std::string& value) = 0;
  // Whether what get() gave for `key` was put before this process began, so that another process can be its rank by now.
  virtual bool outdated(const std::string& /*key*/) { return false; }
  // Of `key`, for which get() gave `seen`, from a process that is gone: what another one puts there. Looks once at least.
  virtual Status get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                           std::string& value) {
    if (Status status = get(key, deadline, value); !status.ok()) return status;
    if (value == seen) return {Code::kTimeout, "nothing else of it came"};
    return {};
  }
  // Puts something else in the place of what this rank has put, as it gives up: for those who come later. Where nothing can be
  // replaced, what was put stays.
  virtual void replace(const std::string& key, const std::string& value) { static_cast<void>(put(key, value)); }
};

// Under which rank `member` puts what the others must know of it.
inline std::string key_of_rank(int member) { return "rank/" + std::to_string(member); }

}  // namespace customccl
