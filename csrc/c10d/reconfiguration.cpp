#include "c10d/reconfiguration.h"

#include <numeric>

#include "c10d/errors.h"
#include "host/notice_meeting.h"

namespace customccl::torch_shim {

namespace {

Status in_reconfigure(Status why, const std::string& group) {
  why.message = "customccl: reconfigure of group \"" + group + "\" refused: " + why.message;
  return why;
}

}  // namespace

NoticeBoard& Reconfiguration::board() {
  if (board_ == nullptr) check(NoticeBoard::make(board_));
  return *board_;
}

std::string Reconfiguration::handle() {
  const std::lock_guard lock(mutex_);
  return board().handle();
}

std::shared_ptr<Communicator> Reconfiguration::meet(std::int64_t uuid, const std::vector<std::string>& handles,
                                                    GroupSpec spec) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<NoticeMeeting> meeting;
  if (Status status = NoticeMeeting::open(board(), uuid, handles, meeting); !status.ok())
    throw_status(in_reconfigure(std::move(status), spec.name));
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
  if (!status.ok()) board().give_up(status.culprit);
  check(status);
  return group;
}

}  // namespace customccl::torch_shim
