#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "core/task.h"
#include "engines/packet_port.h"

namespace customccl {

// A message that came before its recv was posted.
struct Message {
  int source = 0;
  PacketHeader header;
  // header.bytes of it, once it is set aside: an eager one, or the head of a large parcel.
  std::unique_ptr<std::byte[]> data;
  Task* local = nullptr;  // a send of this rank to itself that is not buffered
};

// Brings posted recvs and arrived messages together: by source and tag, first come first served. Thread rule: one at a time.
class Mailbox {
 public:
  explicit Mailbox(int size) : sources_(static_cast<std::size_t>(size)) {}

  // The recv that waits longest for a message of `source` with `tag`, taken out; nullptr if none does.
  [[gnu::hot]] Task* take_recv(int source, std::int64_t tag);
  [[gnu::hot]] void post(Task& recv);

  // The message for `recv` that came first, taken out.
  [[gnu::hot]] std::optional<Message> take_message(const Call& recv);
  void set_aside(Message message);
  // One that was taken out, before all others.
  void put_back(Message message);
  // The same without taking it out, or nullptr.
  const Message* find_message(const Call& recv) const;
  // Takes a posted recv back; false if it is not here any more.
  bool withdraw(Task& recv);

  // Back-pressure: whether more of this source may be read. Only so much is set aside of a source that nobody here waits for.
  bool takes_more(int source) const {
    const Source& from = sources_[static_cast<std::size_t>(source)];
    return from.aside_bytes < kAsideLimit || from.recvs > 0 || any_source_ > 0 || from.looks > 0 || any_look_ > 0;
  }
  // Somebody looks whether the message for `recv` has come, and it may lie behind others.
  void begin_look(const Call& recv) { ++looks_of(recv); }
  void end_look(const Call& recv) { --looks_of(recv); }
  bool waits_for_anybody() const { return any_source_ > 0; }

  const std::list<Message>& messages() const { return messages_; }
  void clear();

 private:
  static constexpr std::size_t kAsideLimit = 16 << 20;

  struct Source {
    std::size_t aside_bytes = 0;
    int recvs = 0;  // that name it
    int looks = 0;
  };
  Source& source_of(int rank) { return sources_[static_cast<std::size_t>(rank)]; }
  int& looks_of(const Call& recv) { return recv.peer == kAnySource ? any_look_ : source_of(recv.peer).looks; }
  int& count_of(const Call& recv) { return recv.peer == kAnySource ? any_source_ : source_of(recv.peer).recvs; }

  std::vector<Task*> recvs_;     // in the order of posting
  std::list<Message> messages_;  // in the order of arrival
  int any_source_ = 0;
  int any_look_ = 0;
  std::vector<Source> sources_;
};

}  // namespace customccl
