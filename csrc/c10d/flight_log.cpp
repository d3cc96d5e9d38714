#include "c10d/flight_log.h"

#include <c10/util/ApproximateClock.h>
#include <c10/util/thread_name.h>
#include <torch/csrc/distributed/c10d/Utils.hpp>

namespace customccl::torch_shim {

namespace {

std::size_t wanted_entries() {
#if CUSTOMCCL_TORCH_RECORDS_EVERY_BACKEND
  return 0;
#else
  const int wanted = ::c10d::getCvarInt({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"}, 0);
  return wanted > 0 ? static_cast<std::size_t>(wanted) : 0;
#endif
}

}  // namespace

FlightLog& FlightLog::get() {
  static auto& log = *new FlightLog(wanted_entries());  // its tracebacks hold Python objects: never destroyed
  return log;
}

std::uint64_t FlightLog::add_group() {
  const std::lock_guard lock(mutex_);
  return next_group_++;
}

std::uint64_t FlightLog::begin(Entry entry, const std::vector<int>& global_ranks) {
  entry.traceback = torch::CapturedTraceback::gather(true, false, false);
  entry.created = c10::getTime();
  entry.thread = c10::getThreadName();
  std::shared_ptr<torch::CapturedTraceback> overwritten;  // goes after the lock: it may need Python's
  const std::lock_guard lock(mutex_);
  Group& group = groups_[entry.group];
  group.name = entry.group_name;
  group.description = entry.group_description;
  group.global_ranks = global_ranks;
  if (!entry.p2p) group.last_enqueued = entry.sequence;
  entry.id = next_++;
  const std::uint64_t id = entry.id;
  if (entries_.size() < limit_) {
    entries_.push_back(std::move(entry));
  } else {
    Entry& oldest = entries_[id % limit_];
    overwritten = std::move(oldest.traceback);
    oldest = std::move(entry);
  }
  return id;
}

void FlightLog::end(std::uint64_t id, bool ok, Nanos took) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[id % limit_];
  if (entry.id != id) return;  // overwritten since
  entry.retired = true;
  if (!ok) return;
  entry.completed = c10::getTime();
  entry.took = took;
  if (!entry.p2p) groups_[entry.group].last_completed = entry.sequence;
}

std::vector<FlightLog::Entry> FlightLog::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> found;
  const std::uint64_t first = next_ - entries_.size();
  for (std::uint64_t id = first; id < next_; ++id) found.push_back(entries_[id % limit_]);
  return found;
}

std::map<std::uint64_t, FlightLog::Group> FlightLog::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

}  // namespace customccl::torch_shim
