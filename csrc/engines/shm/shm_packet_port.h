#pragma once

#include <vector>

#include "engines/packet_port.h"
#include "engines/shm/members.h"
#include "engines/shm/packet_ring.h"
#include "engines/shm/shuttles.h"
#include "engines/shm/store_policy.h"
#include "platform/clock.h"

namespace customccl::shm {

// Packets through shared memory: one ring per ordered pair, made when the pair first talks and found through the sender's
// control block.
class ShmPacketPort final : public PacketPort {
 public:
  explicit ShmPacketPort(Members& members);

  std::size_t max_payload() const override { return capacity_ / 4; }
  // Eight packets fill a ring without a gap.
  std::size_t stream_payload() const override { return capacity_ / 8 / kCacheLine * kCacheLine - kCacheLine; }
  [[gnu::hot]] Store begin_data(int to, std::size_t bytes) override;
  [[gnu::hot]] std::byte* reserve(int to, std::size_t bytes, bool data) override {
    Channel& there = channel(to);
    const bool aboard = data && there.shuttles.aboard();
    std::byte* room = there.writer.reserve(aboard ? 0 : bytes);
    return aboard && room != nullptr ? there.shuttles.room() : room;
  }
  [[gnu::hot]] void send(int to, const PacketHeader& header, bool ends_data) override;
  Status open(int to) override;
  [[gnu::hot]] bool front(int from, PacketHeader& header, const std::byte*& payload) override;
  [[gnu::hot]] void pop(int from) override;
  Status diagnose(const std::vector<int>& awaited, bool from_anybody) override;

 private:
  // How long the data of a message takes to its receiver: from begin_data() until it has read all.
  struct Timing {
    Clock::time_point begin;
    std::size_t bytes = 0;
    std::uint64_t end = 0;  // position in the ring; 0: nothing is timed, or it is not all sent
    Store store = Store::kPlain;
    bool chosen = false;  // to be timed
  };
  // To and from one rank.
  struct Channel {
    RingWriter writer;
    RingReader reader;
    Shuttles shuttles;
    Doorbell* bell = nullptr;
    Store store = Store::kPlain;  // of the last data
    Timing timing;
    StorePolicy policy;
  };
  // Of the memory of one direction: the ring, and a shuttle behind it.
  std::size_t shuttle_bytes() const;
  std::size_t block_bytes() const { return PacketRing::bytes_for(capacity_) + shuttle_bytes(); }
  static void look_at_timing(Channel& channel);
  bool find(int from);
  Channel& channel(int other) { return channels_[static_cast<std::size_t>(other)]; }

  Members& members_;
  std::size_t capacity_;
  std::vector<Channel> channels_;
};

}  // namespace customccl::shm
