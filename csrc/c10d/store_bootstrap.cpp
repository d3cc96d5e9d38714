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

void StoreBootstrap::await(const std::string& key, const Deadline& deadline) {
  using std::chrono::milliseconds;
  if (!background_) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline.left());
    return store_->wait({key}, std::max(left, milliseconds(1)));
  }
  for (Nanos pause = std::chrono::microseconds(100); !store_->check({key});
       pause = std::min<Nanos>(2 * pause, milliseconds(10))) {
    TORCH_CHECK(!deadline.passed());
    std::this_thread::sleep_for(pause);
  }
}

Status StoreBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  try {
    await(key, deadline);
    const auto bytes = store_->get(key);
    value.assign(bytes.begin(), bytes.end());
  } catch (const std::exception& error) {
    if (deadline.passed()) return {Code::kTimeout, "nothing of it was in the store within the limit"};
    return store_error("give key " + key, error);
  }
  return {};
}

}  // namespace customccl::torch_shim
