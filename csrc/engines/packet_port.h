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
  std::uint64_t total = 0;   // bytes of the whole message
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

  // Room for `bytes` of payload to rank `to`, or nullptr: its ring is full. Fill it, then send().
  virtual std::byte* reserve(int to, std::size_t bytes) = 0;
  virtual void send(int to, const PacketHeader& header) = 0;
  // Before the first and after the last packet of `bytes` of data to `to`: how they are best written, learnt from how long it
  // takes until the receiver has them.
  virtual Store begin_data(int to, std::size_t bytes) = 0;
  virtual void end_data(int to) = 0;
  // Not ok: the ring to `to` cannot be made.
  virtual Status open(int to) = 0;

  // The next packet of rank `from`, valid until pop(), or false: there is none.
  virtual bool front(int from, PacketHeader& header, const std::byte*& payload) = 0;
  virtual void pop(int from) = 0;

  // Has anybody failed, or is one of `awaited` dead or gone? With `from_anybody`: has any rank died, or have all others gone?
  virtual Status diagnose(const std::vector<int>& awaited, bool from_anybody) = 0;
};

}  // namespace customccl
