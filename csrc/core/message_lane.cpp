#include "core/message_lane.h"

#include <algorithm>

#include "base/attempt.h"
#include "base/call_record.h"
#include "core/byte_runs.h"
#include "core/communicator.h"
#include "engines/move.h"

namespace customccl {

std::uint64_t MessageLane::bytes_of(const Call& call) {
  return customccl::bytes_of(call.op == Op::kSend ? call.inputs : call.outputs, size_of(call.dtype));
}

std::uint32_t MessageLane::head_bytes(const Call& call) {
  return call.parcel ? static_cast<std::uint32_t>(call.inputs[0].count) : 0;
}

MessageLane::MessageLane(Communicator& group, PacketPort* port, int rank, int size)
    : group_(group),
      port_(port),
      eager_limit_(port == nullptr ? kEagerLimit : std::min(kEagerLimit, port->max_payload())),
      stream_piece_(port == nullptr ? 0 : port->stream_payload()),
      rank_(rank),
      size_(size),
      peers_(static_cast<std::size_t>(size)),
      mailbox_(size) {}

Lane::Begun MessageLane::begin(const Call& call, int looks, Ended& ended) {
  mutex_.lock();
  if (!free() || call.peer == rank_ || port_ == nullptr) return Begun::kNot;
  const bool sends = call.op == Op::kSend;
  Begun begun = Begun::kNot;
  // Without memory for a ring nothing was sent: as a task it fails.
  attempt([&] { begun = sends ? begin_send(call) : begin_recv(call, looks); });
  if (begun != Begun::kOver) return begun;
  ended = {++issued_, sends ? -1 : call.peer};
  mutex_.unlock();
  return begun;
}

Lane::Begun MessageLane::begin_send(const Call& call) {
  const std::uint64_t bytes = bytes_of(call);
  if (!is_eager(call, bytes) || !open(call.peer).ok()) return Begun::kNot;
  Outgoing outgoing = outgoing_of(call, bytes);
  for (bool done = false; !done;) {
    if (flush_one(call.peer, outgoing, done)) continue;
    sending_ = outgoing;
    return outgoing.sent == 0 ? Begun::kNot : Begun::kUnderWay;
  }
  return Begun::kOver;
}

Lane::Begun MessageLane::begin_recv(const Call& call, int looks) {
  const bool known = !call.parcel && call.peer != kAnySource;
  if (!known || !mailbox_.messages().empty()) return Begun::kNot;
  Incoming incoming{&call, nullptr, 0, bytes_of(call)};
  bool begun = false;
  look_until(looks, [&] { return take_pieces(incoming, begun); });
  if (!begun) return Begun::kNot;
  if (incoming.received == incoming.expected) return Begun::kOver;
  receiving_ = incoming;
  return Begun::kUnderWay;
}

bool MessageLane::take_pieces(Incoming& incoming, bool& begun) {
  const Call& call = *incoming.call;
  PacketHeader header;
  const std::byte* payload = nullptr;
  while (port_->front(call.peer, header, payload)) {
    const bool next = begun ? header.kind == PacketHeader::Kind::kMore
                            : header.kind == PacketHeader::Kind::kEager && header.tag == call.tag &&
                                  header.dtype == call.dtype && header.total == incoming.expected;
    if (!next || !fits(incoming, header.bytes)) return true;
    begun = true;
    const bool last = put(incoming, header.bytes, payload);
    port_->pop(call.peer);
    if (last) return true;
  }
  return false;
}

void MessageLane::continue_as(Task& task, Begun begun, std::shared_ptr<Task> keep_alive) {
  if (begun == Begun::kNot) return post_locked(task, 1, std::move(keep_alive));
  count(1);
  keep(task, std::move(keep_alive));
  task.operation().sequence = ++issued_;
  const Call& call = task.call();
  Finished finished(&task);
  if (call.op == Op::kSend) {
    sending_.call = &call;
    sending_.task = &task;
    protect(finished, [&] { peer(call.peer).queue.push_back(sending_); });
  } else {
    receiving_.call = &call;
    receiving_.task = &task;
    task.set_source(call.peer);
    peer(call.peer).arriving = receiving_;
  }
  leave(finished);
}

void MessageLane::accept(Task& task, Finished& finished) {
  task.operation().sequence = ++issued_;
  if (task.call().op == Op::kRecv) return accept_recv(task, finished);
  if (task.call().peer == rank_) return accept_self(task, finished);
  accept_send(task, finished);
}

void MessageLane::accept_send(Task& task, Finished& finished) {
  const int to = task.call().peer;
  Outgoing outgoing = outgoing_of(task.call(), bytes_of(task.call()));
  outgoing.task = &task;
  finished.failure = open(to);  // of the group: the receiver waits, and hears only of that
  const bool may_go = finished.failure.ok() && peer(to).queue.empty();
  if (!may_go || !push(to, outgoing, finished)) peer(to).queue.push_back(outgoing);
}

MessageLane::Outgoing MessageLane::outgoing_of(const Call& call, std::uint64_t bytes) {
  Outgoing outgoing;
  outgoing.call = &call;
  PacketHeader& header = outgoing.header;
  header.tag = call.tag;
  header.dtype = call.dtype;
  header.total = bytes;
  const bool eager = is_eager(call, bytes);
  header.kind = eager ? PacketHeader::Kind::kEager : PacketHeader::Kind::kRequest;
  header.bytes = eager ? static_cast<std::uint32_t>(header.total) : head_bytes(call);
  if (!eager) header.detail = next_number_++;
  return outgoing;
}

void MessageLane::accept_recv(Task& task, Finished& finished) {
  if (task.parcel() != nullptr) return answer(task, *task.parcel(), finished);
  std::optional<Message> message = mailbox_.take_message(task.call());
  if (!message) return mailbox_.post(task);
  const std::byte* payload = message->data.get();
  match(task, std::move(*message), payload, finished);
}

void MessageLane::accept_self(Task& task, Finished& finished) {
  Message message;
  message.source = rank_;
  message.header.tag = task.call().tag;
  message.header.dtype = task.call().dtype;
  message.header.total = bytes_of(task.call());
  const Call& call = task.call();
  Task* recv = mailbox_.take_recv(rank_, message.header.tag);
  // A parcel's receiver gets memory of its own; a tensor's has some.
  const bool buffered = call.parcel || (recv == nullptr && message.header.total <= kEagerLimit);
  if (buffered) {
    message.header.bytes = static_cast<std::uint32_t>(message.header.total);
    message.data = std::make_unique_for_overwrite<std::byte[]>(message.header.total);
    pack_runs(message.data.get(), call.inputs, size_of(call.dtype), 0, message.header.total);
  } else {
    message.local = &task;
  }
  if (recv != nullptr) {
    match(*recv, std::move(message), nullptr, finished);
  } else {
    mailbox_.set_aside(std::move(message));
  }
  if (buffered) complete(task, finished);
}

bool MessageLane::fits(const Task& recv, int source, const PacketHeader& header, Finished& finished) const {
  if (header.total == bytes_of(recv.call()) && header.dtype == recv.call().dtype) return true;
  const auto element = [](DType dtype) {
    return static_cast<std::size_t>(dtype) < kDTypes.size() ? size_of(dtype) : 1;
  };
  CallRecord sent{0, header.total / element(header.dtype), 0, Op::kSend, header.dtype, ReduceOp::kSum};
  finished.failure = {Code::kMismatch,
                      "rank " + std::to_string(group_.global_rank(source)) + " sent " + describe_data(sent) +
                          " with tag " + std::to_string(header.tag) + ", rank " +
                          std::to_string(group_.global_rank(rank_)) + " expects " +
                          describe_data(record_of(recv.call(), 0)),
                      group_.global_rank(source)};
  return false;
}

void MessageLane::match(Task& recv, Message&& message, const std::byte* payload, Finished& finished) {
  recv.set_source(message.source);
  if (recv.call().parcel) return deliver_parcel(recv, std::move(message), payload, finished);
  if (!fits(recv, message.source, message.header, finished)) {
    // Both end with the group.
    mailbox_.post(recv);
    if (message.local != nullptr) mailbox_.set_aside(std::move(message));
    return;
  }
  const View& output = recv.call().outputs[0];
  const PacketHeader& header = message.header;
  if (message.local != nullptr) {
    move_elements(recv.call(), scratch_, message.local->call().inputs[0], output, 0, output.count);
    complete(*message.local, finished);
    complete(recv, finished);
  } else if (header.kind == PacketHeader::Kind::kEager) {
    Incoming incoming{&recv.call(), &recv, 0, header.total};
    if (place(message.source, incoming, header.bytes, payload, finished)) {
      complete(recv, finished);
    } else {
      peer(message.source).arriving = incoming;
    }
  } else {
    answer(recv, message, finished);
  }
}

int MessageLane::awaited_rank(const Task& task) { return task.source() >= 0 ? task.source() : task.call().peer; }

std::vector<int> MessageLane::awaited() const {
  std::vector<bool> wanted(static_cast<std::size_t>(size_));
  for_each_held([&](const Task& task) {
    if (const int other = awaited_rank(task); other != kAnySource) wanted[static_cast<std::size_t>(other)] = true;
  });
  wanted[static_cast<std::size_t>(rank_)] = false;
  std::vector<int> ranks;
  for (int other = 0; other < size_; ++other) {
    if (wanted[static_cast<std::size_t>(other)]) ranks.push_back(other);
  }
  return ranks;
}

Status MessageLane::diagnose() {
  Status status = port_ == nullptr ? Status{} : port_->diagnose(awaited(), mailbox_.waits_for_anybody());
  for_each_held([&](const Task& task) {
    if (status.ok() && !listens(task) && task.deadline().passed()) status = group_.timed_out(awaited_by(task));
  });
  return status;
}

template <class Diagnose>
Status MessageLane::certain(Diagnose&& diagnose, Finished& finished) {
  Status status = believe(std::forward<Diagnose>(diagnose), [&] {
    while (advance(finished) && finished.failure.ok()) {
    }
    return finished.failure.ok();
  });
  return finished.failure.ok() ? status : finished.failure;
}

void MessageLane::inspect_unawaited() {
  if (port_ == nullptr || inherited() || !mutex_.try_lock()) return;
  Finished finished;
  protect(finished, [&] {
    if (!running()) return;
    Status status = certain([&] { return port_->diagnose({}, true); }, finished);
    if (status.code != Code::kPeerLeft) finished.failure = std::move(status);
  });
  leave(finished);
}

Status MessageLane::find_failure(Finished& finished) {
  return certain([&] { return diagnose(); }, finished);
}

void MessageLane::drop_all(const Status& why, Finished& finished) noexcept {
  mailbox_.clear();
  for (Peer& other : peers_) other.clear();
  while (Task* task = held()) fail(*task, explain(*task, why), finished);
}

void MessageLane::end_group(const Status& why) { group_.fail(why); }

Doorbell& MessageLane::bell() const { return group_.bell(); }

std::vector<int> MessageLane::awaited_by(const Task& task) {
  if (const int other = awaited_rank(task); other != kAnySource) return {other};
  std::vector<int> ranks;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && port_->diagnose({peer}, false).code != Code::kPeerLeft) ranks.push_back(peer);
  }
  if (ranks.empty()) ranks.push_back(rank_);  // alone
  return ranks;
}

Status MessageLane::refusal(const Task& task) const noexcept { return group_.refuse(task); }

Status MessageLane::explain(const Task& task, const Status& why) const noexcept { return group_.explain(task, why); }

}  // namespace customccl
