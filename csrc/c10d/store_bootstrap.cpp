#include "c10d/store_bootstrap.h"

#include <algorithm>

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

Status StoreBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
  try {
    store_->wait({key}, std::max(left, std::chrono::milliseconds(1)));
    const auto bytes = store_->get(key);
    value.assign(bytes.begin(), bytes.end());
  } catch (const std::exception& error) {
    if (deadline.passed()) return {Code::kTimeout, "nothing of it was in the store within the limit"};
    return store_error("give key " + key, error);
  }
  return {};
}

}  // namespace customccl::torch_shim
