#include "core/explanations.h"

#include <cstdio>

#include "base/attempt.h"
#include "base/call_record.h"
#include "core/communicator.h"
#include "platform/log.h"

namespace customccl {

namespace {

std::string seconds(Nanos time) {
  char text[32];
  const double value = std::chrono::duration<double>(time).count();
  if (value < 1) {
    std::snprintf(text, sizeof(text), "%.3g ms", value * 1e3);
  } else {
    std::snprintf(text, sizeof(text), "%.4g s", value);
  }
  return text;
}

const char* advice(Code code) {
  switch (code) {
    case Code::kPeerDied:
    case Code::kPeerLeft: return "Make a new group without it, or restart the job.";
    case Code::kTimeout: return "If it is only slow, raise the timeout; else look at what it is doing.";
    case Code::kMismatch:
      return "Every rank must call the same operations in the same order, with the same dtype, counts, reduce op and "
             "root.";
    case Code::kSystem:
    case Code::kOk:
    case Code::kInvalidArgument:
    case Code::kAborted:
    case Code::kClosed:
    case Code::kUnreachable: break;
  }
  return "Make a new group to go on.";
}

}  // namespace

Status setup_error(const GroupSpec& spec, const Deadline& deadline, const Status& why) {
  return {why.code,
          "customccl: rank " + std::to_string(spec.global_ranks[static_cast<std::size_t>(spec.rank)]) +
              " could not make group \"" + spec.name + "\" of " + std::to_string(spec.size) + " ranks: " +
              why.message() + " (after " + seconds(deadline.elapsed()) + " of " + seconds(deadline.limit()) + ")" +
              (why.code == Code::kPeerDied ? std::string(". ") + advice(why.code) : ""),
          why.culprit};
}

std::string Communicator::list(const std::vector<int>& members) const {
  if (members.empty()) return "an earlier operation of the group";
  std::string ranks;
  for (const int member : members) ranks += (ranks.empty() ? "" : ", ") + std::to_string(global_rank(member));
  return (members.size() == 1 ? "rank " : "ranks ") + ranks;
}

std::string Communicator::still_waiting(const Task& task, Nanos limit) const {
  const CallRecord record = record_of(task.call(), task.operation().sequence);
  return "customccl: wait() reached its timeout of " + seconds(limit) + " before " + describe(record) + " of group \"" +
         spec_.name + "\" was done on rank " + std::to_string(global_rank(spec_.rank)) + ", which waits for " +
         list(lane_of(task.call()).awaited(task)) + ". The operation goes on until its own limit of " +
         seconds(task.deadline().limit());
}

Status Communicator::timed_out(const std::vector<int>& awaited) const {
  const std::string who = list(awaited);
  return {Code::kTimeout,
          "the timeout passed: rank " + std::to_string(global_rank(spec_.rank)) + " waited in vain for " + who,
          awaited.empty() ? -1 : global_rank(awaited[0])};
}

std::string Communicator::describe_call(const Task& task) const {
  std::string what = describe_op(record_of(task.call(), task.operation().sequence));
  if (task.call().op == Op::kSend) what += " to rank " + std::to_string(global_rank(task.call().peer));
  if (task.call().op == Op::kRecv) {
    what += task.call().peer == kAnySource ? " from any rank"
                                           : " from rank " + std::to_string(global_rank(task.call().peer));
  }
  if (is_message(task.call().op) && !task.call().parcel && task.call().tag != 0)
    what += " with tag " + std::to_string(task.call().tag);
  return what;
}

void Communicator::log_waiting(Lane& lane, const Task& task, Nanos& told) const {
  const Nanos waited = task.deadline().elapsed();
  if (waited < told + std::chrono::seconds(1)) return;
  told = waited;
  log(LogLevel::kDebug, "rank " + std::to_string(global_rank(spec_.rank)) + " waits in " + describe_call(task) +
                            " of group \"" + spec_.name + "\" since " + seconds(waited) + " for " +
                            list(lane.awaited(task)));
}

Status Communicator::explain(const Task& task, const Status& why) const noexcept {
  Status told = why;  // where there is no memory for more
  attempt([&] {
    const std::string data = describe_data(record_of(task.call(), task.operation().sequence));
    told = {why.code,
            "customccl: " + describe_call(task) + " of group \"" + spec_.name + "\" failed on rank " +
                std::to_string(global_rank(spec_.rank)) + ": " + why.message() + " (waited " +
                seconds(task.deadline().elapsed()) + " of " + seconds(task.deadline().limit()) +
                (data.empty() ? "" : "; " + data) + "). The group is closed. " + advice(why.code),
            why.culprit};
  });
  return told;
}

Status Communicator::refuse(const Task& task) const noexcept {
  Status why(Code::kClosed, "");
  try {
    why = health();
    const std::string what =
        "customccl: " + std::string(name(task.call().op)) + " on group \"" + spec_.name + "\" refused: ";
    if (inherited()) {
      return {Code::kClosed,
              what +
                  "this process was forked from the one that made the group. Make a group of its own here, or "
                  "start processes with spawn."};
    }
    if (why.ok()) {  // the group is suspended, or was a moment ago
      return {Code::kInvalidArgument, what + "the group is suspended. Call resume() on every rank of it first."};
    }
    if (!unconnected_.empty()) return {why.code, what + why.message()};
    return {why.code, what + "the group ended before: " + why.message() + ". " + advice(why.code), why.culprit};
  } catch (const std::exception&) {
    return why.ok() ? Status(Code::kInvalidArgument, "suspended") : why;  // no memory for more
  }
}

}  // namespace customccl
