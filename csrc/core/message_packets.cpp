#include <algorithm>
#include <cstring>

#include "core/byte_runs.h"
#include "core/communicator.h"
#include "core/message_lane.h"

// What a message lane puts into the rings and takes out of them.

namespace customccl {

// Tells the sender of a large message that its data may come.
void MessageLane::answer(Task& recv, const Message& message, Finished& finished) {
  Peer& from = peer(message.source);
  if (Status status = port_->open(message.source); !status.ok()) {
    mailbox_.post(recv);
    finished.failure = std::move(status);
    return;
  }
  const std::uint64_t number = next_number_++;
  from.streaming.emplace(number, Incoming{&recv, 0, message.header.total - message.header.bytes});
  Outgoing clear;
  clear.header.kind = PacketHeader::Kind::kClear;
  clear.header.detail = message.header.detail;  // the sender's number of the message
  clear.header.total = number;                  // ours, which comes back with the data
  from.queue.push_front(clear);                 // ahead of what may be waiting for room
  flush(message.source, finished);
}

bool MessageLane::advance(Finished& finished) {
  if (port_ == nullptr) return false;
  bool moved = false;
  for (int step = 0; step < size_ && finished.failure.ok(); ++step) {
    const int other = (first_drained_ + step) % size_;
    if (other == rank_) continue;
    moved = drain(other, finished) || moved;
    moved = flush(other, finished) || moved;
  }
  first_drained_ = (first_drained_ + 1) % size_;
  return moved;
}

bool MessageLane::wants_more_from(int source) const {
  return mailbox_.takes_more(source) || !peer(source).streaming.empty() || !peer(source).asked.empty();
}

bool MessageLane::drain(int from, Finished& finished) {
  bool moved = false;
  PacketHeader header;
  const std::byte* payload = nullptr;
  while (finished.failure.ok() && wants_more_from(from) && port_->front(from, header, payload)) {
    arrive(from, header, payload, finished);
    port_->pop(from);
    moved = true;
  }
  return moved;
}

void MessageLane::arrive(int from, const PacketHeader& header, const std::byte* payload, Finished& finished) {
  switch (header.kind) {
    case PacketHeader::Kind::kEager:
    case PacketHeader::Kind::kRequest: {
      Message message;
      message.source = from;
      message.header = header;
      const bool eager = header.kind == PacketHeader::Kind::kEager;
      if (header.bytes > header.total || (eager && header.total != header.bytes)) return;  // not a packet of ours
      if (Task* recv = mailbox_.take_recv(from, header.tag); recv != nullptr) {
        return match(*recv, std::move(message), payload, finished);
      }
      if (eager || header.bytes != 0) {
        message.data = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
        std::memcpy(message.data.get(), payload, header.bytes);
      }
      return mailbox_.set_aside(std::move(message));
    }
    case PacketHeader::Kind::kClear: {
      const auto asked = peer(from).asked.find(header.detail);
      if (asked == peer(from).asked.end()) return;
      Outgoing data;
      data.task = asked->second;
      data.header.kind = PacketHeader::Kind::kData;
      data.header.detail = header.total;
      data.header.dtype = data.task->call().dtype;
      data.sent = head_bytes(data.task->call());
      peer(from).asked.erase(asked);
      peer(from).queue.push_back(data);
      return;
    }
    case PacketHeader::Kind::kData: return receive_data(from, header, payload, finished);
  }
}

void MessageLane::receive_data(int from, const PacketHeader& header, const std::byte* payload, Finished& finished) {
  Peer& source = peer(from);
  const auto found = source.streaming.find(header.detail);
  if (found == source.streaming.end()) return;
  Incoming& incoming = found->second;
  const Call& call = incoming.task->call();
  const std::size_t element = size_of(call.dtype);
  const std::uint64_t left = incoming.expected - incoming.received;
  if (header.bytes > left || header.bytes % element != 0) {
    finished.failure = {Code::kSystem, "a message of rank " + std::to_string(group_.global_rank(from)) + " is garbled",
                        group_.global_rank(from)};
    return;
  }
  unpack_runs(call.outputs, element, incoming.received, payload, header.bytes);
  incoming.received += header.bytes;
  if (header.bytes != left) return;
  Task* task = incoming.task;
  source.streaming.erase(found);
  complete(*task, finished);
}

bool MessageLane::flush(int to, Finished& finished) {
  Peer& target = peer(to);
  bool moved = false;
  while (!target.queue.empty()) {
    bool done = false;
    if (!flush_one(to, target.queue.front(), done, finished)) return moved;
    moved = true;
    if (done) target.queue.pop_front();
  }
  return moved;
}

// Sends one packet of `outgoing`; false when the ring is full. `done`: nothing of it is left.
bool MessageLane::flush_one(int to, Outgoing& outgoing, bool& done, Finished& finished) {
  PacketHeader& header = outgoing.header;
  const bool data = header.kind == PacketHeader::Kind::kData;
  if (data) {
    const std::size_t element = size_of(outgoing.task->call().dtype);
    const std::uint64_t piece = port_->stream_payload() / element * element;
    header.bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes_of(outgoing.task->call()) - outgoing.sent, piece));
  }
  std::byte* room = port_->reserve(to, header.bytes);
  if (room == nullptr) return false;
  if (header.bytes != 0) {
    const Call& call = outgoing.task->call();
    const std::size_t element = size_of(call.dtype);
    pack_runs(room, call.inputs, element, outgoing.sent, header.bytes);
  }
  port_->send(to, header);
  outgoing.sent += header.bytes;
  if (header.kind == PacketHeader::Kind::kRequest) peer(to).asked.emplace(header.detail, outgoing.task);
  done = !data || outgoing.sent == bytes_of(outgoing.task->call());
  if (done && (data || header.kind == PacketHeader::Kind::kEager)) complete(*outgoing.task, finished);
  return true;
}

}  // namespace customccl
