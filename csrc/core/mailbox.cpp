#include "core/mailbox.h"

#include <algorithm>

namespace customccl {

namespace {

bool accepts(const Call& recv, int source, std::int64_t tag) {
  return (recv.peer == kAnySource || recv.peer == source) && recv.tag == tag;
}

// What a message that is set aside costs.
std::size_t footprint(const Message& message) {
  return message.data == nullptr ? 0 : sizeof(Message) + message.header.bytes;
}

}  // namespace

Task* Mailbox::take_recv(int source, std::int64_t tag) {
  const auto found =
      std::find_if(recvs_.begin(), recvs_.end(), [&](const Task* recv) { return accepts(recv->call(), source, tag); });
  if (found == recvs_.end()) return nullptr;
  Task* recv = *found;
  recvs_.erase(found);
  --count_of(recv->call());
  return recv;
}

void Mailbox::post(Task& recv) {
  recvs_.push_back(&recv);
  ++count_of(recv.call());
}

std::optional<Message> Mailbox::take_message(const Call& recv) {
  const auto found = std::find_if(messages_.begin(), messages_.end(), [&](const Message& message) {
    return accepts(recv, message.source, message.header.tag);
  });
  if (found == messages_.end()) return std::nullopt;
  Message message = std::move(*found);
  messages_.erase(found);
  source_of(message.source).aside_bytes -= footprint(message);
  return message;
}

const Message* Mailbox::find_message(const Call& recv) const {
  for (const Message& message : messages_) {
    if (accepts(recv, message.source, message.header.tag)) return &message;
  }
  return nullptr;
}

bool Mailbox::withdraw(Task& recv) {
  const auto found = std::find(recvs_.begin(), recvs_.end(), &recv);
  if (found == recvs_.end()) return false;
  recvs_.erase(found);
  --count_of(recv.call());
  return true;
}

void Mailbox::set_aside(Message message) {
  source_of(message.source).aside_bytes += footprint(message);
  messages_.push_back(std::move(message));
}

void Mailbox::put_back(Message message) {
  source_of(message.source).aside_bytes += footprint(message);
  messages_.push_front(std::move(message));
}

void Mailbox::clear() {
  recvs_.clear();
  messages_.clear();
  any_source_ = any_look_ = 0;
  std::fill(sources_.begin(), sources_.end(), Source());
}

}  // namespace customccl
