#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/lane.h"
#include "core/mailbox.h"
#include "engines/packet_port.h"
#include "engines/scratch.h"

namespace customccl {

class Communicator;

// send and recv of a group. Messages of one source and tag are matched in the order they were sent; different tags and sources do not
// hinder each other, whatever order they are posted in.
//
//   up to the eager limit   the data travels at once; the send is done when it lies in the ring. If nobody expects it, the receiver
//                           sets it aside, up to a limit (mailbox.h). More than a piece comes as a first packet and "more" of it,
//                           so that both ends copy at the same time.
//   above                   a request travels; the receiver answers "clear" when the recv is posted; then the data
//                           follows in pieces, straight into the receiver's tensor.
//
// Parcels (Call::parcel) are messages of bytes whose receiver does not know the size. A small one is taken whole. Of a large one the
// receiver gets the head, which travels in the request; it makes room and posts a second recv, which has it answered "clear".
//
// Everything to one rank goes through one ring in order. The receiver never leaves a packet in it that others wait behind, so a ring
// always drains and any order of posting completes.
class MessageLane final : public Lane {
 public:
  MessageLane(Communicator& group, PacketPort* port, int rank, int size);

  // Sends or receives an eager message, if nothing else is pending. A recv whose message is not there yet has not begun.
  [[gnu::hot]] Begun begin(const Call& call, int looks, Ended& ended);
  // Goes on with the call of begin(), and what that said. Releases the lock.
  void continue_as(Task& task, Begun begun, std::shared_ptr<Task> keep_alive);

  // How large a parcel travels at once, in one packet.
  std::size_t parcel_limit() const { return std::min(kParcelLimit, eager_limit_); }
  // The message that a recv like this would get now: its source (the result; -1: none) and size.
  int probe(const Call& recv, std::uint64_t& bytes);
  // For who looks without waiting, which inspect() does not serve: finds a member's death, or its failure. Not that all have left, as
  // who looks again and again may be about to leave, too.
  void inspect_unawaited();
  // A parcel that nobody has looked at goes back to where it was, or to who waits for it.
  void give_back(Message&& message);
  // Whether nothing is under way: whoever is here waits for a parcel that has not come.
  bool only_listens();

 private:
  static constexpr std::size_t kEagerLimit = 512 << 10;
  static constexpr std::size_t kParcelLimit = 64 << 10;
  // What one packet carries: small enough that the receiver soon has something to copy, large enough that packets cost little.
  static constexpr std::size_t kEagerPiece = 8 << 10;
  static constexpr std::size_t kDataPiece = 16 << 10;
  // Of a message from kLongMessage on: a receiver on another last-level cache waits for each header.
  static constexpr std::size_t kLongMessage = 256 << 10;
  static constexpr std::size_t kLongMessagePiece = 32 << 10;
  // Of one that exceeds the second-level cache, so that memory is read and written in long runs (kernels/copy.cpp).
  static constexpr std::size_t kLongestPiece = 128 << 10;
  // By non-temporal stores, which end each piece with a fence.
  static constexpr std::size_t kStreamedPiece = 32 << 10;

  // A packet that waits for room in a ring, or the rest of a message.
  struct Outgoing {
    PacketHeader header;
    const Call* call = nullptr;  // none for "clear"
    Task* task = nullptr;        // none yet where the call has begun without one
    std::uint64_t sent = 0;      // bytes of the message
    Store store = Store::kPlain;
    bool begun = false;  // begin_data() has been called for it
  };
  struct Incoming {
    const Call* call = nullptr;
    Task* task = nullptr;  // as above
    std::uint64_t received = 0;
    std::uint64_t expected = 0;
  };
  struct Peer {
    bool open = false;                                      // there is a ring to this rank
    std::deque<Outgoing> queue;                             // to this rank, in order
    std::unordered_map<std::uint64_t, Task*> asked;         // our requests not yet answered, by number
    std::unordered_map<std::uint64_t, Incoming> streaming;  // its large messages on their way here, by our number
    // Its eager message of which more comes: into the tensor of a recv, or gathered to be set aside when it is whole.
    Incoming arriving;
    std::optional<Message> gathered;

    void clear() {
      open = false;
      queue.clear();
      asked.clear();
      streaming.clear();
      arriving = {};
      gathered.reset();
    }
  };

  void accept(Task& task, Finished& finished) override;
  bool advance(Finished& finished) override;
  Status find_failure(Finished& finished) override;
  void drop_all(const Status& why, Finished& finished) noexcept override;
  void end_group(const Status& why) override;
  Doorbell& bell() const override;
  Status refusal(const Task& task) const noexcept override;
  Status explain(const Task& task, const Status& why) const noexcept override;
  std::vector<int> awaited_by(const Task& task) override;
  bool take_back(Task& task) override { return mailbox_.withdraw(task); }

  static std::uint64_t bytes_of(const Call& call);
  bool is_eager(const Call& call, std::uint64_t bytes) const {
    return bytes <= (call.parcel ? parcel_limit() : eager_limit_);
  }
  // What travels in the request of a large message: the head of a parcel.
  static std::uint32_t head_bytes(const Call& call);

  void accept_send(Task& task, Finished& finished);
  void accept_recv(Task& task, Finished& finished);
  void accept_self(Task& task, Finished& finished);

  Status open(int to) {
    if (peer(to).open) return {};
    Status status = port_->open(to);
    peer(to).open = status.ok();
    return status;
  }
  [[gnu::hot]] Begun begin_send(const Call& call);
  [[gnu::hot]] Begun begin_recv(const Call& call, int looks);
  // Takes what has come of the message; true when looking for more is of no use: it is all here, or something else comes first.
  [[gnu::hot]] bool take_pieces(Incoming& incoming, bool& begun);
  [[gnu::hot]] Outgoing outgoing_of(const Call& call, std::uint64_t bytes);
  [[gnu::hot]] std::size_t piece_of(const Outgoing& outgoing) const;
  bool flush(int to, Finished& finished);
  // Sends what there is room for; true when nothing is left.
  bool push(int to, Outgoing& outgoing, Finished& finished);
  [[gnu::hot]] bool flush_one(int to, Outgoing& outgoing, bool& done);
  bool drain(int from, Finished& finished);
  void arrive(int from, const PacketHeader& header, const std::byte* payload, Finished& finished);
  void take_in(Message&& message, const std::byte* payload, Finished& finished);
  void begin_gathering(Message&& message, const std::byte* payload);
  void receive_more(int from, const PacketHeader& header, const std::byte* payload, Finished& finished);
  void receive_data(int from, const PacketHeader& header, const std::byte* payload, Finished& finished);
  // Puts a piece where it belongs; true when it was the last one.
  bool place(int from, Incoming& incoming, std::uint32_t bytes, const std::byte* payload, Finished& finished);
  static bool fits(const Incoming& incoming, std::uint32_t bytes) {
    return bytes <= incoming.expected - incoming.received && (bytes & (size_of(incoming.call->dtype) - 1)) == 0;
  }
  [[gnu::hot]] static bool put(Incoming& incoming, std::uint32_t bytes, const std::byte* payload);
  void report_garbled(int from, Finished& finished) const;
  void match(Task& recv, Message&& message, const std::byte* payload, Finished& finished);
  void deliver_parcel(Task& recv, Message&& message, const std::byte* payload, Finished& finished);
  void answer(Task& recv, const Message& message, Finished& finished);
  bool fits(const Task& recv, int source, const PacketHeader& header, Finished& finished) const;
  void complete(Task& task, Finished& finished) {
    ++completed_;
    finish(task, finished);
  }
  bool wants_more_from(int source) const;
  // Ranks that a pending task waits for; those that receive from anybody count for none.
  std::vector<int> awaited() const;
  // Who is gone, or was awaited in vain.
  Status diagnose();
  template <class Diagnose>
  Status certain(Diagnose&& diagnose, Finished& finished);
  static bool listens(const Task& task) {
    return task.call().parcel && task.call().op == Op::kRecv && task.parcel() == nullptr;
  }
  // The rank that it waits for, or kAnySource.
  static int awaited_rank(const Task& task);

  int after(int rank) const { return rank + 1 == size_ ? 0 : rank + 1; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }

  Communicator& group_;
  PacketPort* port_;  // nullptr in a group of one
  std::size_t eager_limit_;
  std::size_t stream_piece_;
  int rank_;
  int size_;
  std::vector<Peer> peers_;
  Mailbox mailbox_;
  int first_drained_ = 0;  // takes turns, so that no source is favoured
  std::uint64_t next_number_ = 1;
  std::uint64_t issued_ = 0;
  std::uint64_t completed_ = 0;
  Scratch scratch_;
  // What begin() has under way, for continue_as().
  Outgoing sending_;
  Incoming receiving_;
};

}  // namespace customccl
