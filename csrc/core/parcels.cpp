#include "base/attempt.h"
#include "core/communicator.h"
#include "core/message_lane.h"
#include "core/progress.h"
#include "platform/process.h"

// Messages whose receiver does not know the size. How they travel: message_lane.h. Waiting for one in vain does not end the group,
// unlike every other wait: nobody has begun anything.

namespace customccl {

namespace {

Status nothing_came(Nanos limit) noexcept {
  Status told(Code::kTimeout, "nothing came");  // short enough to need no memory
  attempt(
      [&] { told = {Code::kTimeout, "no message came within " + std::to_string(limit.count() / 1000000) + " ms"}; });
  return told;
}

}  // namespace

Status Communicator::receive_parcel(const Call& call, Nanos limit, bool (*interrupted)(),
                                    std::shared_ptr<Message>& out) {
  Task task(call, limit);
  if (inherited()) return refuse(task);
  messages_->post(task, looks());
  const Clock::time_point begin = Clock::now();
  constexpr Nanos kSlice = std::chrono::milliseconds(50);
  bool stopped = false;
  while (!task.done()) {
    const Nanos left = limit - (Clock::now() - begin);
    if (left.count() <= 0) {
      messages_->withdraw(task, nothing_came(limit));
    } else if (!wait(task, std::min(left, kSlice)) && interrupted()) {
      stopped = true;
      messages_->withdraw(task, {Code::kAborted, "interrupted"});
    }
  }
  if (stopped && task.status().ok()) {  // it came while a signal was handled
    messages_->give_back(std::move(*task.parcel()));
    return {Code::kAborted, "interrupted"};
  }
  out = task.parcel();
  return task.status();
}

Status Communicator::fetch(const Call& call, std::shared_ptr<Message> parcel) {
  Task task(call, limit_of(call));
  task.set_parcel(std::move(parcel));
  if (inherited()) return refuse(task);
  messages_->post(task, looks());
  if (!task.done()) wait_for(*messages_, task);
  return task.status();
}

int Communicator::probe(const Call& call, std::uint64_t& bytes) {
  if (inherited()) return -1;
  const int source = messages_->probe(call, bytes);
  if (source < 0) messages_->inspect();
  return source;
}

bool Communicator::drain(Nanos limit) {
  if (inherited()) return true;
  const Deadline deadline(limit);
  const auto idle = [&] { return !collectives_->busy() && messages_->only_listens(); };
  wait_until(
      spin_, bell_, [&] { return idle() || deadline.passed(); },
      [&](bool sleeps) {
        const bool moved = collectives_->drive(nullptr, sleeps);
        return messages_->drive(nullptr, sleeps) || moved;
      },
      [&] {
        collectives_->inspect();
        messages_->inspect();
        Progress::get().drive_others(*messages_);
      });
  return idle();
}

std::size_t Communicator::parcel_limit() const { return messages_->parcel_limit(); }

}  // namespace customccl
