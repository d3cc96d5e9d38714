#include "c10d/attendance.h"

#include <sstream>

namespace customccl::torch_shim {

namespace {

constexpr Nanos kPatience = std::chrono::milliseconds(20);  // who is there answers sooner

}  // namespace

std::string Attendance::own_address() {
  ArenaAddress own;
  if (!ArenaAddress::own(own).ok()) return {};
  std::ostringstream text;
  text << own;
  return text.str();
}

bool Attendance::watch(int rank, const std::string& address) {
  Watched process;
  bool settled = true;
  ArenaAddress where;
  if (std::istringstream words(address); words >> where) {
    const Code code = attach(where, Deadline(kPatience), process.arena).code;
    process.ended = code == Code::kPeerDied;
    settled = code != Code::kTimeout;
  }
  const auto index = static_cast<std::size_t>(rank);
  const std::lock_guard lock(mutex_);
  if (index >= watched_.size()) watched_.resize(index + 1);
  watched_[index] = std::move(process);
  return settled;
}

std::vector<std::pair<int, Code>> Attendance::gone() const {
  std::vector<std::pair<int, Code>> ranks;
  const auto known = known_.lock();
  for (std::size_t rank = 0; known != nullptr && rank < members_.size(); ++rank) {
    const Code why = members_[rank] >= 0 ? known->gone(members_[rank]) : Code::kOk;
    if (why != Code::kOk) ranks.emplace_back(static_cast<int>(rank), why);
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t rank = 0; rank < watched_.size(); ++rank) {
    const Watched& process = watched_[rank];
    if (process.ended || (process.arena != nullptr && process.arena->dead()))
      ranks.emplace_back(static_cast<int>(rank), Code::kPeerDied);
  }
  return ranks;
}

}  // namespace customccl::torch_shim
