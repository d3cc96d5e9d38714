#include "engines/shm/shm_packet_port.h"

#include <algorithm>
#include <limits>
#include <new>

#include "platform/cpu.h"
#include "platform/memory_file.h"

namespace customccl::shm {

namespace {

// Messages there and back, across a mesh: 1 KiB 0.93 of the time, 2 KiB 0.85, 512 KiB 0.93 (docs/measured-decisions.md). Not between other
// cores: nothing gained there.
std::size_t window() { return cores_on_mesh() ? 64 << 10 : std::numeric_limits<std::size_t>::max(); }

// Its receiver tells the sender when it has read.
constexpr StorePolicy::Kind kMessages{Op::kSend, true};

}  // namespace

ShmPacketPort::ShmPacketPort(Members& members)
    : members_(members), capacity_(members.ring_bytes()), channels_(static_cast<std::size_t>(members.size())) {
  for (int member = 0; member < members.size(); ++member) {
    channel(member).bell = &members.bell_of(member);
    channel(member).shuttles.set_bytes(shuttle_bytes());
  }
}

std::size_t ShmPacketPort::shuttle_bytes() const {
  return readers_own_lines() ? std::min(capacity_ / 4 / kCacheLine * kCacheLine, Shuttles::kMost) : 0;
}

Status ShmPacketPort::open(int to) {
  if (channel(to).writer.opened()) return {};
  Block block;
  if (Status status = members_.allocate(block_bytes(), block); !status.ok()) return status;
  map_pages(block.data, block_bytes(), Access::kWrite);
  channel(to).writer = RingWriter(new (block.data) PacketRing(), capacity_, window());
  channel(to).shuttles.add(true, block.data + PacketRing::bytes_for(capacity_));
  members_.own().mailboxes(members_.size())[to].store(block.offset + 1, std::memory_order_release);
  return {};
}

Store ShmPacketPort::begin_data(int to, std::size_t bytes) {
  Channel& there = channel(to);
  bool measure = false;
  there.store = there.policy.choose(bytes, kMessages, measure);
  if (measure) there.timing = {Clock::now(), bytes, 0, there.store, true};
  there.shuttles.board(there.store == Store::kPlain ? bytes : 0);
  return there.store;
}

void ShmPacketPort::send(int to, const PacketHeader& header, bool ends_data) {
  Channel& there = channel(to);
  PacketRing::Extra extra;
  if (carries_data(header.kind) && there.shuttles.aboard()) extra.place = there.shuttles.put(header.bytes, ends_data);
  extra.timed = ends_data && there.timing.chosen && there.timing.end == 0;
  there.writer.publish(header, extra);
  members_.ring(*there.bell);
  if (ends_data && there.store == Store::kPlain) there.writer.prefetch_next();
  if (extra.timed) there.timing.end = there.writer.position();
}

void ShmPacketPort::look_at_timing(Channel& channel) {
  Timing& timing = channel.timing;
  if (timing.end == 0 || channel.writer.consumed() < timing.end) return;
  channel.policy.observe(timing.store, timing.bytes, kMessages, channel.writer.read_at() - timing.begin);
  timing = Timing();
}

bool ShmPacketPort::find(int from) {
  const std::uint64_t offset =
      members_.of(from).mailboxes(members_.size())[members_.rank()].load(std::memory_order_acquire);
  if (offset == 0) return false;
  std::byte* ring = members_.address(from, offset - 1, block_bytes());
  if (ring == nullptr) return false;
  std::byte* shuttle = ring + PacketRing::bytes_for(capacity_);
  map_pages(ring, PacketRing::bytes_for(capacity_), Access::kRead);
  map_pages(shuttle, shuttle_bytes(), Access::kWrite);
  channel(from).shuttles.add(false, shuttle);
  channel(from).reader = RingReader(reinterpret_cast<PacketRing*>(ring), capacity_);
  return true;
}

bool ShmPacketPort::front(int from, PacketHeader& header, const std::byte*& payload) {
  Channel& there = channel(from);
  look_at_timing(there);
  if (!there.reader.opened() && !find(from)) return false;
  if (!there.reader.front(header, payload)) return false;
  if (const Shuttles::Place place = there.reader.place(); place != 0) {
    if (Shuttles::goes_on(place)) there.reader.prefetch_next();
    payload = there.shuttles.at(place, header.bytes);
    if (payload == nullptr) {
      there.reader.break_off();  // never trust a place from a peer
      return false;
    }
    RingReader::read_ahead(payload, header.bytes);
  }
  return true;
}

void ShmPacketPort::pop(int from) {
  Channel& there = channel(from);
  if (const Shuttles::Place place = there.reader.place(); place != 0) there.shuttles.taken(place);
  there.reader.pop();
  members_.ring(*there.bell);  // it may wait for room
}

Status ShmPacketPort::diagnose(const std::vector<int>& awaited, bool from_anybody) {
  for (int member = 0; member < members_.size(); ++member) {
    if (channel(member).reader.broken())
      return {Code::kSystem, "the messages of " + members_.describe(member) + " are garbled"};
  }
  Status status = members_.diagnose(awaited);
  return status.ok() && from_anybody ? members_.diagnose_anybody() : status;
}

}  // namespace customccl::shm
