#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "kernels/copy.h"

namespace customccl {

// A packet of the message protocol (core/message_lane.h). The payload lies behind it.
struct PacketHeader {
  enum class Kind : std::uint8_t { kEager, kMore, kRequest, kClear, kData };
  std::int64_t tag = 0;
  std::uint64_t total = 0;   // bytes of the whole message; kClear: the receiver's number of it
  std::uint64_t detail = 0;  // kRequest, kClear: the sender's number of the message; kData: the receiver's
  std::uint32_t bytes = 0;   // of payload in this packet
  Kind kind = Kind::kEager;
  DType dtype = DType::kUInt8;
};

// Rather than a word about a message.
constexpr bool carries_data(PacketHeader::Kind kind) {
  return kind != PacketHeader::Kind::kRequest && kind != PacketHeader::Kind::kClear;
}

// Packets in order to and from every other rank of a group. Never waits. Thread rule: one thread at a time.
class PacketPort {
 public:
  virtual ~PacketPort() = default;
  virtual std::size_t max_payload() const = 0;
  // The payload of a packet of many that follow each other: small enough that both ends copy at the same time.
  virtual std::size_t stream_payload() const = 0;

  // Before the first packet of `bytes` of data to `to`, once, which is to be finished before another data begins: how they are best
  // written, learnt from how long it takes until the receiver has them.
  virtual Store begin_data(int to, std::size_t bytes) = 0;
  // Room for `bytes` of payload to rank `to`, or nullptr: its ring is full. Fill it, then send(). `data`: of what begin_data() was for.
  virtual std::byte* reserve(int to, std::size_t bytes, bool data) = 0;
  // `ends_data`: it is the last one of what began with begin_data().
  virtual void send(int to, const PacketHeader& header, bool ends_data) = 0;
  // Not ok: the ring to `to` cannot be made.
  virtual Status open(int to) = 0;

  // The next packet of rank `from`, valid until pop(), or false: there is none.
  virtual bool front(int from, PacketHeader& header, const std::byte*& payload) = 0;
  virtual void pop(int from) = 0;

  // Has anybody failed, or is one of `awaited` dead or gone? With `from_anybody`: has any rank died, or have all others gone?
  virtual Status diagnose(const std::vector<int>& awaited, bool from_anybody) = 0;
};

}  // namespace customccl
