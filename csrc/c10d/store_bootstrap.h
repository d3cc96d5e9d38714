#pragma once

#include "c10d/compat.h"
#include "host/bootstrap.h"

namespace customccl::torch_shim {

// Meets the other ranks in a c10d Store (TCPStore, FileStore, HashStore, PrefixStore, or one written in Python).
class StoreBootstrap final : public Bootstrap {
 public:
  explicit StoreBootstrap(c10::intrusive_ptr<::c10d::Store> store) : store_(std::move(store)) {}
  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;

 private:
  c10::intrusive_ptr<::c10d::Store> store_;
};

}  // namespace customccl::torch_shim
