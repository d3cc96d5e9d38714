#pragma once

#include <atomic>
#include <memory>

#include "c10d/compat.h"
#include "host/bootstrap.h"

namespace customccl::torch_shim {

using GivenUp = std::atomic<bool>;

// Meets the other ranks in a c10d Store (TCPStore, FileStore, HashStore, PrefixStore, or one written in Python).
class StoreBootstrap final : public Bootstrap {
 public:
  // `given_up`: told by another thread, ends what is awaited here; may be nullptr.
  StoreBootstrap(c10::intrusive_ptr<::c10d::Store> store, std::shared_ptr<const GivenUp> given_up)
      : store_(std::move(store)), given_up_(std::move(given_up)) {}
  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;

 private:
  Status await(const std::string& key, const Deadline& deadline);

  c10::intrusive_ptr<::c10d::Store> store_;
  std::shared_ptr<const GivenUp> given_up_;
};

}  // namespace customccl::torch_shim
