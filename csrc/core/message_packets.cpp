#include <algorithm>
#include <cstring>
#include <utility>

#include "core/byte_runs.h"
#include "core/communicator.h"
#include "core/message_lane.h"
#include "platform/cpu.h"

// What a message lane puts into the rings and takes out of them.

namespace customccl {

namespace {

// Where both ranks send and receive so much, as most do in turns, their tensors will not be found in the caches.
bool beyond_caches(std::uint64_t message) { return exceeds_caches(4 * message); }

// The second-level caches of Intel's servers and of AMD's.
bool exceeds_second_level(std::uint64_t message) { return message >= (cores_on_mesh() ? 2 << 20 : 1 << 20); }

// Where strings write whole lines, a receiver on another last-level cache soon falls behind its sender, and waits for each header:
// 64 KiB there and back 5.9 us in pieces of 16 KiB, 7.8 in ones of 8 (near cores 2.58 and 2.62; 16 KiB 1.09 and 1.01).
// Elsewhere 64 KiB each way take 0.93 of the time near in pieces of 16 KiB, 1.02 far; 48 KiB 1.0 and 1.03.
bool in_small_pieces(std::uint64_t message) { return message < (strings_write_lines() ? 32 << 10 : 64 << 10); }

}  // namespace

// Tells the sender of a large message that its data may come.
void MessageLane::answer(Task& recv, const Message& message, Finished& finished) {
  Peer& from = peer(message.source);
  if (Status status = open(message.source); !status.ok()) {
    mailbox_.post(recv);
    finished.failure = std::move(status);
    return;
  }
  const std::uint64_t number = next_number_++;
  from.streaming.emplace(number, Incoming{&recv.call(), &recv, 0, message.header.total - message.header.bytes});
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
  int other = first_drained_;
  for (int step = 0; step < size_ && finished.failure.ok(); ++step) {
    if (other != rank_) {
      moved = drain(other, finished) || moved;
      if (!peer(other).queue.empty()) moved = flush(other, finished) || moved;
    }
    other = after(other);
  }
  first_drained_ = after(first_drained_);
  return moved;
}

bool MessageLane::wants_more_from(int source) const {
  const Peer& from = peer(source);
  return mailbox_.takes_more(source) || !from.streaming.empty() || !from.asked.empty() ||
         from.arriving.task != nullptr || from.gathered.has_value();
}

// Until nothing is there, or a task is done: its thread wants to know, and another look at an empty ring costs more than all the rest.
bool MessageLane::drain(int from, Finished& finished) {
  bool moved = false;
  PacketHeader header;
  const std::byte* payload = nullptr;
  const std::uint64_t completed = completed_;
  while (completed == completed_ && finished.failure.ok() && wants_more_from(from) &&
         port_->front(from, header, payload)) {
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
      const bool eager = header.kind == PacketHeader::Kind::kEager;
      const bool sound = header.bytes <= header.total && (!eager || header.total <= kEagerLimit);
      if (!sound) return report_garbled(from, finished);
      Message message;
      message.source = from;
      message.header = header;
      return take_in(std::move(message), payload, finished);
    }
    case PacketHeader::Kind::kMore: return receive_more(from, header, payload, finished);
    case PacketHeader::Kind::kClear: {
      const auto asked = peer(from).asked.find(header.detail);
      if (asked == peer(from).asked.end()) return;
      Outgoing data;
      data.task = asked->second;
      data.call = &data.task->call();
      data.header.kind = PacketHeader::Kind::kData;
      data.header.detail = header.total;
      data.header.dtype = data.call->dtype;
      data.header.total = bytes_of(*data.call);
      data.sent = head_bytes(*data.call);
      peer(from).asked.erase(asked);
      peer(from).queue.push_back(data);
      return;
    }
    case PacketHeader::Kind::kData: return receive_data(from, header, payload, finished);
  }
}

// The first packet of a message, or an eager one that has been gathered.
void MessageLane::take_in(Message&& message, const std::byte* payload, Finished& finished) {
  if (Task* recv = mailbox_.take_recv(message.source, message.header.tag); recv != nullptr) {
    return match(*recv, std::move(message), payload, finished);
  }
  const PacketHeader& header = message.header;
  const bool eager = header.kind == PacketHeader::Kind::kEager;
  if (eager && header.bytes != header.total) return begin_gathering(std::move(message), payload);
  if (message.data == nullptr && (eager || header.bytes != 0)) {
    message.data = std::make_unique_for_overwrite<std::byte[]>(header.bytes);
    std::memcpy(message.data.get(), payload, header.bytes);
  }
  mailbox_.set_aside(std::move(message));
}

void MessageLane::begin_gathering(Message&& message, const std::byte* payload) {
  message.data = std::make_unique_for_overwrite<std::byte[]>(message.header.total);
  std::memcpy(message.data.get(), payload, message.header.bytes);
  const int from = message.source;
  peer(from).gathered = std::move(message);
}

void MessageLane::receive_more(int from, const PacketHeader& header, const std::byte* payload, Finished& finished) {
  Peer& source = peer(from);
  if (source.arriving.task != nullptr) {
    if (!place(from, source.arriving, header.bytes, payload, finished)) return;
    complete(*std::exchange(source.arriving, {}).task, finished);
    return;
  }
  if (!source.gathered) return report_garbled(from, finished);
  PacketHeader& there = source.gathered->header;
  if (header.bytes > there.total - there.bytes) return report_garbled(from, finished);
  std::memcpy(source.gathered->data.get() + there.bytes, payload, header.bytes);
  there.bytes += header.bytes;
  if (there.bytes != there.total) return;
  Message whole = std::move(*source.gathered);
  source.gathered.reset();
  const std::byte* data = whole.data.get();
  take_in(std::move(whole), data, finished);
}

void MessageLane::receive_data(int from, const PacketHeader& header, const std::byte* payload, Finished& finished) {
  Peer& source = peer(from);
  const auto found = source.streaming.find(header.detail);
  if (found == source.streaming.end()) return;
  if (!place(from, found->second, header.bytes, payload, finished)) return;
  Task* task = found->second.task;
  source.streaming.erase(found);
  complete(*task, finished);
}

bool MessageLane::place(int from, Incoming& incoming, std::uint32_t bytes, const std::byte* payload,
                        Finished& finished) {
  if (fits(incoming, bytes)) return put(incoming, bytes, payload);
  report_garbled(from, finished);
  return false;
}

bool MessageLane::put(Incoming& incoming, std::uint32_t bytes, const std::byte* payload) {
  const Call& call = *incoming.call;
  // What is written around the caches is not read first.
  const Store store = beyond_caches(incoming.expected) ? Store::kStreaming : Store::kPlain;
  unpack_runs(call.outputs, size_of(call.dtype), incoming.received, payload, bytes, store);
  incoming.received += bytes;
  return incoming.received == incoming.expected;
}

void MessageLane::report_garbled(int from, Finished& finished) const {
  const int rank = group_.global_rank(from);
  finished.failure = {Code::kSystem, "a message of rank " + std::to_string(rank) + " is garbled", rank};
}

bool MessageLane::flush(int to, Finished& finished) {
  std::deque<Outgoing>& queue = peer(to).queue;
  bool moved = false;
  while (!queue.empty()) {
    const std::uint64_t sent = queue.front().sent;
    const bool done = push(to, queue.front(), finished);
    moved = moved || done || queue.front().sent != sent;
    if (!done) return moved;
    queue.pop_front();
  }
  return moved;
}

bool MessageLane::push(int to, Outgoing& outgoing, Finished& finished) {
  for (bool done = false; !done;) {
    if (!flush_one(to, outgoing, done)) return false;
  }
  if (carries_data(outgoing.header.kind)) complete(*outgoing.task, finished);
  return true;
}

// How much of the message the next packet carries. A small parcel comes in one: its receiver has no tensor to put pieces into.
std::size_t MessageLane::piece_of(const Outgoing& outgoing) const {
  const std::uint64_t left = outgoing.header.total - outgoing.sent;
  const bool data = outgoing.header.kind == PacketHeader::Kind::kData;
  if (!data && outgoing.call->parcel) return left;
  const std::size_t wanted = !data && in_small_pieces(outgoing.header.total) ? kEagerPiece
                             : outgoing.store == Store::kStreaming           ? kStreamedPiece
                             : exceeds_second_level(outgoing.header.total)   ? kLongestPiece
                             : outgoing.header.total >= kLongMessage         ? kLongMessagePiece
                                                                             : kDataPiece;
  const std::size_t most = std::min(wanted, stream_piece_);
  return std::min<std::uint64_t>(left, most & ~(size_of(outgoing.header.dtype) - 1));  // whole elements
}

// Sends one packet of `outgoing`; false when the ring is full. `done`: nothing of it is left.
bool MessageLane::flush_one(int to, Outgoing& outgoing, bool& done) {
  PacketHeader& header = outgoing.header;
  const bool streams = carries_data(header.kind);
  if (streams && !outgoing.begun) {
    outgoing.store = port_->begin_data(to, header.total - outgoing.sent);
    outgoing.begun = true;
  }
  if (streams) header.bytes = static_cast<std::uint32_t>(piece_of(outgoing));
  std::byte* room = port_->reserve(to, header.bytes, streams);
  if (room == nullptr) return false;
  if (header.bytes != 0) {
    pack_runs(room, outgoing.call->inputs, size_of(header.dtype), outgoing.sent, header.bytes, outgoing.store,
              beyond_caches(header.total) ? Origin::kMemory : Origin::kCache);
  }
  outgoing.sent += header.bytes;
  done = !streams || outgoing.sent == header.total;
  port_->send(to, header, streams && done);
  if (header.kind == PacketHeader::Kind::kRequest) peer(to).asked.emplace(header.detail, outgoing.task);
  if (header.kind == PacketHeader::Kind::kEager) header.kind = PacketHeader::Kind::kMore;
  return true;
}

}  // namespace customccl
