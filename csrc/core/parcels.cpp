#include <cstring>

#include "base/attempt.h"
#include "core/communicator.h"
#include "core/message_lane.h"
#include "core/progress.h"

// Messages whose receiver does not know the size. How they travel: message_lane.h. Waiting for one in vain does not end the group,
// unlike every other wait: nobody has begun anything.

namespace customccl {

namespace {

constexpr Nanos kSlice = std::chrono::milliseconds(50);  // between two looks whether this thread is interrupted

Status nothing_came(Nanos limit) noexcept {
  Status told(Code::kTimeout, "nothing came");  // short enough to need no memory
  attempt(
      [&] { told = {Code::kTimeout, "no message came within " + std::to_string(limit.count() / 1000000) + " ms"}; });
  return told;
}

}  // namespace

void MessageLane::deliver_parcel(Task& recv, Message&& message, const std::byte* payload, Finished& finished) {
  if (message.header.kind == PacketHeader::Kind::kEager && message.header.bytes != message.header.total) {
    mailbox_.post(recv);
    return report_garbled(message.source, finished);
  }
  auto parcel = std::make_shared<Message>(std::move(message));
  if (parcel->data == nullptr) {
    parcel->data = std::make_unique_for_overwrite<std::byte[]>(parcel->header.bytes);
    std::memcpy(parcel->data.get(), payload, parcel->header.bytes);
  }
  recv.set_parcel(std::move(parcel));
  complete(recv, finished);
}

int MessageLane::probe(const Call& recv, std::uint64_t& bytes) {
  if (inherited()) return -1;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return -1;
    mailbox_.begin_look(recv);
  }
  drive();
  if (inherited()) return -1;
  const std::lock_guard lock(mutex_);
  if (closed_) return -1;
  mailbox_.end_look(recv);
  const Message* message = mailbox_.find_message(recv);
  if (message == nullptr) return -1;
  bytes = message->header.total;
  return message->source;
}

void MessageLane::give_back(Message&& message) {
  mutex_.lock();
  Finished finished;
  protect(finished, [&] {
    if (!running()) return;
    if (Task* recv = mailbox_.take_recv(message.source, message.header.tag); recv != nullptr) {
      match(*recv, std::move(message), nullptr, finished);
    } else {
      mailbox_.put_back(std::move(message));
    }
  });
  leave(finished);
}

bool MessageLane::only_listens() {
  const std::lock_guard lock(mutex_);
  bool all = true;
  for_each_held([&](const Task& task) { all = all && listens(task); });
  return all;
}

Status Communicator::receive_parcel(const Call& call, Nanos limit, bool (*interrupted)(), std::shared_ptr<Message>& out,
                                    bool* in_vain) {
  Task task(call, limit);
  if (inherited()) return refuse(task);
  messages_->post(task, looks());
  const Clock::time_point begin = Clock::now();
  bool stopped = false;
  while (!task.done()) {
    const Nanos left = limit - (Clock::now() - begin);
    if (inherited()) {  // a handler of a signal forked
      messages_->abandon(task);
    } else if (left.count() <= 0) {
      const bool withdrawn = messages_->withdraw(task, nothing_came(limit));
      if (in_vain != nullptr) *in_vain = withdrawn;
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

Status Communicator::fetch(const Call& call, std::shared_ptr<Message> parcel, bool (*interrupted)()) {
  Task task(call, limit_of(call));
  task.set_parcel(std::move(parcel));
  if (inherited()) return refuse(task);
  messages_->post(task, looks());
  while (!task.done() && interrupted != nullptr) {
    if (!wait(task, kSlice) && interrupted()) interrupted = nullptr;
  }
  if (!task.done()) wait_for(*messages_, task);
  return task.status();
}

void Communicator::give_back(Message&& message) {
  if (!inherited()) messages_->give_back(std::move(message));
}

int Communicator::probe(const Call& call, std::uint64_t& bytes) {
  if (inherited()) return -1;
  const int source = messages_->probe(call, bytes);
  if (source < 0) messages_->inspect_unawaited();
  return source;
}

bool Communicator::drain(Nanos limit) {
  if (inherited()) return true;
  const Deadline deadline(limit);
  const auto idle = [&] { return inherited() || (!collectives_->busy() && messages_->only_listens()); };
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
