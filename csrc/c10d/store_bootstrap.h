#pragma once

#include "c10d/compat.h"
#include "host/bootstrap.h"

namespace customccl::torch_shim {

// Meets the other ranks in a c10d Store (TCPStore, FileStore, HashStore, PrefixStore, or one written in Python).
class StoreBootstrap final : public Bootstrap {
 public:
  // In the background: looks now and then instead of waiting in the store, which keeps all others of the process from its connection.
  StoreBootstrap(c10::intrusive_ptr<::c10d::Store> store, bool background)
      : store_(std::move(store)), background_(background) {}
  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;

 private:
  void await(const std::string& key, const Deadline& deadline);

  c10::intrusive_ptr<::c10d::Store> store_;
  bool background_;
};

}  // namespace customccl::torch_shim
