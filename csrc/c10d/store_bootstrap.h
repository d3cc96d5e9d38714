#pragma once

#include <map>

#include "c10d/attendance.h"
#include "c10d/group_keys.h"
#include "engines/group_spec.h"
#include "host/bootstrap.h"

namespace customccl::torch_shim {

// Meets the other ranks in a c10d Store (TCPStore, FileStore, HashStore, PrefixStore, or one written in Python). What a rank puts there
// bears the moment when it did so.
class StoreBootstrap final : public Bootstrap {
 public:
  // What is awaited here ends by spec.timeout, or before it as `attendance` says. `spec` and both outlive this.
  StoreBootstrap(GroupKeys& keys, const GroupSpec& spec, const Attendance& attendance)
      : keys_(keys), spec_(spec), attendance_(attendance), limit_(spec.timeout) {}
  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;
  void replace(const std::string& key, const std::string& value) override;
  bool outdated(const std::string& key) override;
  Status get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                   std::string& value) override;

  // For ranks that cannot share memory with all others: says that this one is here, and waits until each of the others has said so.
  Status hear_of_all();
  // For a rank whose group failed after it had met all others: goes where one of them is ahead.
  void follow_any();

  // Since it was asked last: was another rank found ahead, by follow_any() or a wait, which ended with kAborted? Then the ranks meet
  // where `keys` are now.
  bool has_moved() { return std::exchange(moved_, false); }

 private:
  // Waits for a value of `key`, by the rank with the key `rank`, that is not `seen`. watch() throws what the store does.
  Status await(const std::string& key, const std::string& rank, const std::string* seen, const Deadline& deadline,
               std::string& value);
  Status watch(const std::string& key, const std::string& rank, const std::string* seen, const Deadline& deadline,
               std::string& value);
  bool read(const std::string& key, std::string& value);
  // While a value of `key` is awaited, by the rank with the key `rank`: not ok when a rank that is gone has put none.
  Status miss_gone(const std::string& key, const std::string& rank);

  GroupKeys& keys_;
  const GroupSpec& spec_;
  const Attendance& attendance_;
  Deadline limit_;
  std::map<std::string, std::string> moments_;  // key -> when what read() gave was put
  bool moved_ = false;
  bool said_failure_ = false;
};

}  // namespace customccl::torch_shim
