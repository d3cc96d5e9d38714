#include "c10d/store_bootstrap.h"

#include <algorithm>
#include <thread>

namespace customccl::torch_shim {

namespace {

Status store_error(const std::string& what, const std::exception& error) {
  return {Code::kSystem, "the store failed to " + what + ": " + error.what()};
}

}  // namespace

Status StoreBootstrap::put(const std::string& key, const std::string& value) {
  try {
    store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  } catch (const std::exception& error) {
    return store_error("take key " + key, error);
  }
  return {};
}

// Looks now and then: who waits in a store keeps all others of the process from its connection, also those whom the awaited one waits for.
Status StoreBootstrap::await(const std::string& key, const Deadline& deadline) {
  for (Nanos pause = std::chrono::microseconds(20); !store_->check({key});
       pause = std::min<Nanos>(2 * pause, std::chrono::milliseconds(10))) {
    if (given_up_ != nullptr && *given_up_) return {Code::kAborted, "this rank gave it up"};
    if (deadline.passed()) return {Code::kTimeout, "nothing of it was in the store within the limit"};
    std::this_thread::sleep_for(pause);
  }
  return {};
}

Status StoreBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  try {
    if (Status status = await(key, deadline); !status.ok()) return status;
    const auto bytes = store_->get(key);
    value.assign(bytes.begin(), bytes.end());
  } catch (const std::exception& error) {
    if (deadline.passed()) return {Code::kTimeout, "nothing of it was in the store within the limit"};
    return store_error("give key " + key, error);
  }
  return {};
}

}  // namespace customccl::torch_shim
