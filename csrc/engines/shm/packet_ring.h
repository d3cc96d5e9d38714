#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/cache_line.h"
#include "engines/packet_port.h"
#include "platform/clock.h"
#include "platform/cpu.h"

// A ring of packets from one rank to another, in the sender's arena.
//
// A packet starts on a cache line with a frame (40 bytes). Up to 24 bytes of payload follow at once and travel in the same line; more
// begin on the next line, as copies between aligned places are up to twice as fast. A packet never wraps: where it does not fit before
// the end, or goes back to the beginning earlier (RingWriter), a skip packet fills up. The frame's `number` is what publishes a packet:
// they are numbered from 1, and the reader looks for the next number where the next packet must begin.
//
// Why the reader cannot take old bytes for a packet: before the writer publishes packet k it has zeroed the number of the line behind
// k, where k+1 will begin. That line is free: the writer keeps one line more than the packet between itself and what the reader
// has not consumed.
// Who writes: the frames and payloads by the sender, `consumed` by the receiver (release, after it has read; the sender acquires before
// it writes there again). 64-bit positions that only grow: no wrap of the counters.

namespace customccl::shm {

struct PacketRing {
  // What only the two ends of the ring know of a packet.
  struct Extra {
    std::uint16_t place = 0;  // where its payload lies, if not behind the frame (shuttles.h)
    bool timed = false;       // its reader tells when it has read it
  };

  // Its reader looks at it all the time. So whatever stops the writer between the first store to it and the last, be it for a few
  // nanoseconds, costs a second journey of the line: the header is stored in whole words that come from registers, and the number at
  // once behind it. (2 KiB there and back across a mesh 1.1 us; with a header copied in two overlapping halves 1.0 to 2.4.)
  struct Frame {
    std::atomic<std::uint64_t> number;
    std::atomic<std::uint64_t> words[4];

    void set_header(const PacketHeader& header, const Extra& extra) {
      const auto set = [this](int word, std::uint64_t value) { words[word].store(value, std::memory_order_relaxed); };
      set(0, static_cast<std::uint64_t>(header.tag));
      set(1, header.total);
      set(2, header.detail);
      set(3, header.bytes | std::uint64_t{static_cast<std::uint8_t>(header.kind)} << 32 |
                 std::uint64_t{extra.timed} << 39 | std::uint64_t{static_cast<std::uint8_t>(header.dtype)} << 40 |
                 std::uint64_t{extra.place} << 48);
    }
    PacketHeader header() const {
      const auto get = [this](int word) { return words[word].load(std::memory_order_relaxed); };
      const std::uint64_t last = get(3);
      return {static_cast<std::int64_t>(get(0)),
              get(1),
              get(2),
              static_cast<std::uint32_t>(last),
              static_cast<PacketHeader::Kind>(last >> 32 & 0x7f),
              static_cast<DType>(last >> 40 & 0xff)};
    }
    Extra extra() const {
      const std::uint64_t last = words[3].load(std::memory_order_relaxed);
      return {static_cast<std::uint16_t>(last >> 48), (last >> 39 & 1) != 0};
    }
  };
  static_assert(sizeof(Frame) == 40, "24 bytes of payload fit into the frame's line");
  static constexpr std::uint32_t kSkip = ~std::uint32_t{0};  // header.bytes of a skip packet

  alignas(128) std::atomic<std::uint64_t> consumed{0};  // position up to which the receiver has read
  // When it had read the last timed packet, on the clock that all processes share.
  std::atomic<std::int64_t> read_at{0};

  static constexpr std::size_t bytes_for(std::size_t capacity) { return sizeof(PacketRing) + capacity; }
  // Behind a payload of some lines others stay empty: a processor that reads line after line has more of them come than it needs, and
  // what the next packet is written to is then dear to its writer. (Messages of 1, 2, 4 KiB 1.4 to 1.5x near. Not behind the pieces of
  // larger ones: 1.05x near, 0.8x far.)
  static constexpr std::size_t kGap = 1024;
  static constexpr std::size_t gap(std::size_t payload, std::size_t capacity) {
    return payload >= kGap && payload < 8 * kGap && capacity >= 128 * kGap ? kGap : 0;
  }

  // Where in a packet its payload begins.
  static constexpr std::size_t payload_offset(std::size_t payload) {
    return sizeof(Frame) + payload <= kCacheLine ? sizeof(Frame) : kCacheLine;
  }
  static constexpr std::size_t footprint(std::size_t payload, std::size_t capacity) {
    return (payload_offset(payload) + payload + gap(payload, capacity) + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
};

// The sender's end. Private to its process.
class RingWriter {
 public:
  RingWriter() = default;
  // `window`: from that place on, small packets go back to the ring's begin whenever the receiver has read everything, and from four
  // times that place on the pieces of a larger message whenever there is room for them. At least 16 KiB, so that a small packet fits
  // there while the receiver has not passed the rest.
  RingWriter(PacketRing* ring, std::size_t capacity, std::size_t window)
      : ring_(ring), capacity_(capacity), window_(window), look_(window) {}

  bool opened() const { return ring_ != nullptr; }
  // What has been published ends here, and how far the receiver has read.
  std::uint64_t position() const { return position_; }
  std::uint64_t consumed() const { return ring_->consumed.load(std::memory_order_acquire); }
  // When, if the last packet of that was a timed one.
  Clock::time_point read_at() const { return Clock::time_point(Nanos(ring_->read_at.load(std::memory_order_relaxed))); }
  [[gnu::hot]] std::byte* reserve(std::size_t payload);
  // Where the payload has a place of its own, the packet is one of no bytes.
  [[gnu::hot]] void publish(const PacketHeader& header, const PacketRing::Extra& extra = {});
  // Has the lines come that a next packet like the last one is written to, by plain stores.
  [[gnu::hot]] void prefetch_next() const;

 private:
  PacketRing::Frame* frame_at(std::size_t place) const {
    return reinterpret_cast<PacketRing::Frame*>(ring_->data() + place);
  }
  [[gnu::hot]] bool fits(std::size_t bytes);
  [[gnu::hot]] void zero_behind(std::size_t length);
  void skip_to_end();
  void go_back(std::size_t payload);
  [[gnu::hot]] void commit(const PacketHeader& header, const PacketRing::Extra& extra, std::size_t length);
  // Has the line come that lies so far behind the place of the next packet. That behind a packet has to be zeroed before the packet
  // is published, and nobody else is at it.
  void prefetch(std::size_t offset) const { fetch_to_write(reinterpret_cast<std::byte*>(frame_at(place_)) + offset); }

  PacketRing* ring_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t window_ = 0;
  std::size_t look_ = 0;  // the place from which on it tries to go back
  std::uint64_t position_ = 0;
  std::size_t place_ = 0;  // of the next packet in the ring: position_ modulo capacity_
  std::uint64_t number_ = 0;
  std::uint64_t consumed_ = 0;  // as last seen
  std::size_t payload_ = 0;     // of the last packet
};

// The receiver's end. Private to its process.
class RingReader {
 public:
  RingReader() = default;
  RingReader(PacketRing* ring, std::size_t capacity) : ring_(ring), capacity_(capacity) {}

  bool opened() const { return ring_ != nullptr; }
  // False: nothing there. A frame whose length cannot be right ends the ring for good (broken()).
  [[gnu::hot]] bool front(PacketHeader& header, const std::byte*& payload);
  // Of that packet: where its payload lies, if not behind the frame (`payload` is nullptr then).
  std::uint16_t place() const { return extra_.place; }
  // Has a small payload come, wherever it lies.
  [[gnu::hot]] static void read_ahead(const std::byte* payload, std::size_t bytes);
  // Has the frame of the next packet come, which will be needed when that at the front has been read.
  void prefetch_next() const { __builtin_prefetch(ring_->data() + next_place()); }
  [[gnu::hot]] void pop();
  bool broken() const { return broken_; }
  void break_off() { broken_ = true; }

 private:
  // Of a packet at the front.
  std::size_t next_place() const { return place_ + length_ == capacity_ ? 0 : place_ + length_; }

  PacketRing* ring_ = nullptr;
  std::size_t capacity_ = 0;
  std::uint64_t position_ = 0;
  std::size_t place_ = 0;
  std::uint64_t number_ = 0;
  std::size_t length_ = 0;  // of the packet at the front
  PacketRing::Extra extra_;
  bool broken_ = false;
};

}  // namespace customccl::shm
