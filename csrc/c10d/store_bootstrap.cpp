#include "c10d/store_bootstrap.h"

#include <algorithm>
#include <thread>

#include "platform/process.h"

namespace customccl::torch_shim {

namespace {

Status store_error(const std::string& what, const std::exception& error) {
  return {Code::kSystem, "the store failed to " + what + ": " + error.what()};
}

}  // namespace

Status StoreBootstrap::put(const std::string& key, const std::string& value) {
  try {
    const std::string text = moment_now() + ' ' + value;
    keys_.part()->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  } catch (const std::exception& error) {
    return store_error("take key " + key, error);
  }
  return {};
}

// Who left for another part says nothing in this one: it has not failed.
void StoreBootstrap::replace(const std::string& key, const std::string& value) {
  if (!moved_) static_cast<void>(put(key, value));
}

bool StoreBootstrap::read(const std::string& key, std::string& value) {
  if (!keys_.part()->check({key})) return false;
  const auto bytes = keys_.part()->get(key);
  const auto space = std::find(bytes.begin(), bytes.end(), ' ');
  moments_[key].assign(bytes.begin(), space);
  value.assign(space == bytes.end() ? space : space + 1, bytes.end());
  return true;
}

// Looks now and then: who waits in a store keeps all others of the process from its connection, also those whom the awaited one waits for.
Status StoreBootstrap::await(const std::string& key, const std::string* seen, const Deadline& deadline,
                             std::string& value) {
  constexpr Nanos kLongest = std::chrono::milliseconds(10);
  // Whether a rank is ahead is asked at once of one that is gone, and else when all should have come: it takes as long as a look.
  Nanos asked = seen != nullptr ? kLongest : Nanos(0);
  for (Nanos pause = std::chrono::microseconds(20);; pause = std::min(2 * pause, kLongest)) {
    if (read(key, value) && (seen == nullptr || value != *seen)) return {};
    if (asked >= kLongest) {
      asked = Nanos(0);
      if (keys_.follow(key)) {
        moved_ = true;
        return {Code::kAborted, "the ranks meet in another part of the store"};
      }
    }
    if (given_up_ != nullptr && *given_up_) return {Code::kAborted, "this rank gave it up"};
    if (deadline.passed() || limit_.passed())
      return {Code::kTimeout, "nothing of it was in the store within the limit"};
    std::this_thread::sleep_for(pause);
    asked += pause;
  }
}

Status StoreBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  try {
    return await(key, nullptr, deadline, value);
  } catch (const std::exception& error) {
    if (deadline.passed()) return {Code::kTimeout, "nothing of it was in the store within the limit"};
    return store_error("give key " + key, error);
  }
}

bool StoreBootstrap::outdated(const std::string& key) {
  const auto moment = moments_.find(key);
  return moment != moments_.end() && before_this_process(moment->second);
}

Status StoreBootstrap::get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                                 std::string& value) {
  try {
    return await(key, &seen, deadline, value);
  } catch (const std::exception& error) {
    return store_error("give key " + key, error);
  }
}

}  // namespace customccl::torch_shim
