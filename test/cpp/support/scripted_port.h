#pragma once

#include <deque>
#include <limits>
#include <vector>

#include "engines/packet_port.h"

namespace customccl::test {

struct Packet {
  PacketHeader header;
  std::vector<std::byte> payload;
};

// Between this rank and rank 1: holds what a test puts there, and what was sent.
class ScriptedPort final : public PacketPort {
 public:
  std::size_t max_payload() const override { return 64 << 10; }
  std::size_t stream_payload() const override { return 32 << 10; }
  std::byte* reserve(int, std::size_t bytes, bool) override {
    if (room == 0) return nullptr;
    --room;
    std::vector<std::byte>& payload = sent.emplace_back().payload;
    payload.reserve(bytes + 1);  // a place even for no bytes
    payload.resize(bytes);
    return payload.data();
  }
  void send(int, const PacketHeader& header, bool ends_data) override {
    sent.back().header = header;
    ended += ends_data ? 1 : 0;
  }
  Store begin_data(int, std::size_t) override { return Store::kPlain; }
  Status open(int) override { return opens; }
  bool front(int from, PacketHeader& header, const std::byte*& payload) override {
    if (from != 1 || arrived.empty()) return false;
    header = arrived.front().header;
    payload = arrived.front().payload.data();
    return true;
  }
  void pop(int) override { arrived.pop_front(); }
  Status diagnose(const std::vector<int>&, bool) override { return {}; }

  std::deque<Packet> arrived;
  std::vector<Packet> sent;
  std::size_t room = std::numeric_limits<std::size_t>::max();  // packets
  int ended = 0;
  Status opens;
};

}  // namespace customccl::test
