#include "core/communicator.h"
#include "core/message_lane.h"

// A group that is not needed for a while gives its staging back. The place of the staging in the arena stays, only its pages go, so
// peers need not find it again.
//
// Both steps end with a barrier that nothing can come behind. After that of suspend(), every rank has read all that peers staged
// (control_block.h), and none stages anything more. After that of resume(), every rank has its memory again.

namespace customccl {

Status Communicator::meet_for(SuspensionStep step) {
  Call call;
  call.dtype = static_cast<DType>(step);
  Task task(call, limit_of(call));
  task.set_pauses();
  collectives_->post(task, looks());
  if (!task.done()) wait_for(*collectives_, task);
  return task.status();
}

Status Communicator::suspend() {
  if (inherited()) return refuse(Task(Call(), Nanos(0)));
  const std::lock_guard lock(suspension_mutex_);
  if (suspended()) return {Code::kInvalidArgument, "customccl: group \"" + spec_.name + "\" is suspended already"};
  messages_->pause();
  if (Status status = meet_for(SuspensionStep::kSuspend); !status.ok()) return status;
  suspended_.store(true, std::memory_order_release);
  collectives_->suspend();
  return {};
}

Status Communicator::resume() {
  if (inherited()) return refuse(Task(Call(), Nanos(0)));
  const std::lock_guard lock(suspension_mutex_);
  if (!suspended()) return {Code::kInvalidArgument, "customccl: group \"" + spec_.name + "\" is not suspended"};
  if (Status status = collectives_->resume(); !status.ok()) return status;
  if (Status status = meet_for(SuspensionStep::kResume); !status.ok()) return status;
  suspended_.store(false, std::memory_order_release);
  collectives_->go_on();
  messages_->go_on();
  return {};
}

}  // namespace customccl
