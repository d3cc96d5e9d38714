#include "c10d/store_bootstrap.h"

#include <algorithm>
#include <thread>

#include "platform/process.h"

namespace customccl::torch_shim {

namespace {

constexpr const char* kNothingCame = "nothing of it was in the store within the limit";

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
  if (moved_) return;
  said_failure_ = true;
  static_cast<void>(put(key, value));
}

bool StoreBootstrap::read(const std::string& key, std::string& value) {
  if (!keys_.part()->check({key})) return false;
  const auto bytes = keys_.part()->get(key);
  const auto space = std::find(bytes.begin(), bytes.end(), ' ');
  moments_[key].assign(bytes.begin(), space);
  value.assign(space == bytes.end() ? space : space + 1, bytes.end());
  return true;
}

// All must come, so one that cannot ends it for all, also for who still waits for another.
Status StoreBootstrap::miss_gone(const std::string& key, const std::string& rank) {
  for (const auto& [gone, why] : attendance_.gone()) {
    const std::string its = key_of_rank(gone);
    if (keys_.part()->check({key.substr(0, key.size() - rank.size()) + its})) continue;  // what it has put tells more
    const int global = spec_.global_ranks[static_cast<std::size_t>(gone)];
    const std::string who = its == rank ? "it" : "global rank " + std::to_string(global);
    return {why, who + (why == Code::kPeerDied ? " has died" : " has left the group that this one is made out of"),
            global};
  }
  return {};
}

// Looks now and then: who waits in a store keeps all others of the process from its connection, also those whom the awaited one waits for.
Status StoreBootstrap::watch(const std::string& key, const std::string& rank, const std::string* seen,
                             const Deadline& deadline, std::string& value) {
  constexpr Nanos kLongest = std::chrono::milliseconds(10);
  // Whether a rank is ahead is asked at once of one that is gone, and else when all should have come: it takes as long as a look.
  Nanos asked = seen != nullptr ? kLongest : Nanos(0);
  for (Nanos pause = std::chrono::microseconds(20);; pause = std::min(2 * pause, kLongest)) {
    if (read(key, value) && (seen == nullptr || value != *seen)) return {};
    if (asked >= kLongest) {
      asked = Nanos(0);
      if (keys_.follow(rank)) {
        moved_ = true;
        return {Code::kAborted, "the ranks meet in another part of the store"};
      }
    }
    if (attendance_.given_up()) return {Code::kAborted, "this rank gave it up"};
    if (Status missing = miss_gone(key, rank); !missing.ok()) return missing;
    if (deadline.passed() || limit_.passed()) return {Code::kTimeout, kNothingCame};
    std::this_thread::sleep_for(pause);
    asked += pause;
  }
}

Status StoreBootstrap::await(const std::string& key, const std::string& rank, const std::string* seen,
                             const Deadline& deadline, std::string& value) {
  try {
    return watch(key, rank, seen, deadline, value);
  } catch (const std::exception& error) {
    if (deadline.passed()) return {Code::kTimeout, kNothingCame};
    return store_error("give key " + key, error);
  }
}

Status StoreBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  return await(key, key, nullptr, deadline, value);
}

bool StoreBootstrap::outdated(const std::string& key) {
  const auto moment = moments_.find(key);
  return moment != moments_.end() && before_this_process(moment->second);
}

Status StoreBootstrap::get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                                 std::string& value) {
  return await(key, key, &seen, deadline, value);
}

// What a rank found of others elsewhere may be of an earlier start: nobody can tell whether such a process lives. That all are here, and in
// this part, each has to say itself: who is ahead says it in another part, and await() goes there.
Status StoreBootstrap::hear_of_all() {
  const auto key_of = [](int member) { return "elsewhere/" + key_of_rank(member); };
  if (Status status = put(key_of(spec_.rank), ""); !status.ok()) return status;
  for (int member = 0; member < spec_.size; ++member) {
    if (member == spec_.rank) continue;
    std::string nothing;
    std::string later;
    Status status = await(key_of(member), key_of_rank(member), nullptr, limit_, nothing);
    if (status.ok()) {  // but it may have given that attempt up since, and be ahead
      status = await(key_of(member), key_of_rank(member), &nothing, Deadline(Nanos(0)), later);
      if (status.ok() || status.code == Code::kTimeout) continue;
    }
    const int global = spec_.global_ranks[static_cast<std::size_t>(member)];
    return {status.code,
            "customccl: the ranks of group \"" + spec_.name + "\" cannot share memory, and global rank " +
                std::to_string(global) + " did not come to agree on another backend: " + status.message(),
            status.culprit >= 0 ? status.culprit : global};
  }
  return {};
}

// Who reads of a failure asks whether that rank is ahead. Who has met all before one of them left reads nothing more: it sees their
// marks, and asks here. Not who has said itself that it failed, as others have believed that by now.
void StoreBootstrap::follow_any() {
  if (moved_ || said_failure_ || limit_.passed() || attendance_.given_up()) return;
  try {
    for (int member = 0; member < spec_.size && !moved_; ++member)
      moved_ = member != spec_.rank && keys_.follow(key_of_rank(member));
  } catch (const std::exception&) {
    return;  // the failure that there is tells more than that of the store
  }
}

}  // namespace customccl::torch_shim
