#include "engines/shm/shm_packet_port.h"

#include <limits>
#include <new>

#include "platform/cpu.h"
#include "platform/memory_file.h"

namespace customccl::shm {

namespace {

// Messages there and back, across a mesh: 1 KiB 0.93 of the time, 2 KiB 0.85, 512 KiB 0.93 (docs/measured-decisions.md). Not between other
// cores: nothing gained there.
std::size_t window() { return cores_on_mesh() ? 64 << 10 : std::numeric_limits<std::size_t>::max(); }

}  // namespace

ShmPacketPort::ShmPacketPort(Members& members)
    : members_(members), capacity_(members.ring_bytes()), channels_(static_cast<std::size_t>(members.size())) {
  for (int member = 0; member < members.size(); ++member) channel(member).bell = &members.bell_of(member);
}

Status ShmPacketPort::open(int to) {
  if (channel(to).writer.opened()) return {};
  Block block;
  if (Status status = members_.allocate(PacketRing::bytes_for(capacity_), block); !status.ok()) return status;
  map_pages(block.data, PacketRing::bytes_for(capacity_), Access::kWrite);
  channel(to).writer = RingWriter(new (block.data) PacketRing(), capacity_, window());
  members_.own().mailboxes(members_.size())[to].store(block.offset + 1, std::memory_order_release);
  return {};
}

void ShmPacketPort::send(int to, const PacketHeader& header) {
  channel(to).writer.publish(header);
  members_.ring(*channel(to).bell);
}

Store ShmPacketPort::begin_data(int to, std::size_t bytes) {
  Channel& there = channel(to);
  bool measure = false;
  there.store = there.policy.choose(bytes, true, measure);
  if (measure) there.timing = {Clock::now(), bytes, 0, there.store, true};
  return there.store;
}

void ShmPacketPort::end_data(int to) {
  Channel& there = channel(to);
  if (there.store == Store::kPlain) there.writer.prefetch_next();
  if (there.timing.chosen && there.timing.end == 0) there.timing.end = there.writer.position();
}

void ShmPacketPort::look_at_timing(Channel& channel) {
  Timing& timing = channel.timing;
  if (timing.end == 0 || channel.writer.consumed() < timing.end) return;
  channel.policy.observe(timing.store, timing.bytes, true, Clock::now() - timing.begin);
  timing = Timing();
}

bool ShmPacketPort::find(int from) {
  const std::uint64_t offset =
      members_.of(from).mailboxes(members_.size())[members_.rank()].load(std::memory_order_acquire);
  if (offset == 0) return false;
  std::byte* ring = members_.address(from, offset - 1, PacketRing::bytes_for(capacity_));
  if (ring == nullptr) return false;
  map_pages(ring, PacketRing::bytes_for(capacity_), Access::kRead);
  channel(from).reader = RingReader(reinterpret_cast<PacketRing*>(ring), capacity_);
  return true;
}

bool ShmPacketPort::front(int from, PacketHeader& header, const std::byte*& payload) {
  Channel& there = channel(from);
  look_at_timing(there);
  if (!there.reader.opened() && !find(from)) return false;
  return there.reader.front(header, payload);
}

void ShmPacketPort::pop(int from) {
  channel(from).reader.pop();
  members_.ring(*channel(from).bell);  // it may wait for room
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
