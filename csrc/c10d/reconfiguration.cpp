#include "c10d/reconfiguration.h"

#include <numeric>

#include "c10d/errors.h"
#include "host/notice_meeting.h"

namespace customccl::torch_shim {

namespace {

Status in_reconfigure(const Status& why, const std::string& group) {
  return {why.code, "customccl: reconfigure of group \"" + group + "\" refused: " + why.message(), why.culprit};
}

}  // namespace

NoticeBoard& Reconfiguration::board() {
  if (generation_ != fork_generation()) {
    throw_status(
        {Code::kClosed,
         "customccl: reconfigure refused: this process was forked from the one that made the group. Make a group of "
         "its own here, or start processes with spawn."});
  }
  const std::lock_guard lock(board_mutex_);
  if (board_ == nullptr) check(NoticeBoard::make(board_));
  return *board_;
}

std::string Reconfiguration::handle() { return board().handle(); }

std::shared_ptr<Communicator> Reconfiguration::meet(std::int64_t uuid, const std::vector<std::string>& handles,
                                                    GroupSpec spec) {
  NoticeBoard& own = board();
  const std::lock_guard lock(meeting_mutex_);
  std::unique_ptr<NoticeMeeting> meeting;
  if (Status status = NoticeMeeting::open(own, uuid, handles, meeting); !status.ok())
    throw_status(in_reconfigure(status, spec.name));
  if (!used_.insert(uuid).second) {
    const std::string why = "uuid " + std::to_string(uuid) + " was already used; each reconfigure needs a fresh one";
    throw_status(in_reconfigure({Code::kMismatch, why}, spec.name));
  }
  spec.rank = meeting->rank();
  spec.size = static_cast<int>(handles.size());
  spec.global_ranks.resize(handles.size());
  std::iota(spec.global_ranks.begin(), spec.global_ranks.end(), 0);
  std::shared_ptr<Communicator> group;
  const Status status = Communicator::create(spec, *meeting, group);
  if (!status.ok()) own.give_up(status.culprit);
  check(status);
  return group;
}

}  // namespace customccl::torch_shim
