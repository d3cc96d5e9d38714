#include "engines/shm/shm_packet_port.h"

#include <new>

#include "platform/memory_file.h"

namespace customccl::shm {

ShmPacketPort::ShmPacketPort(Members& members)
    : members_(members),
      capacity_(members.ring_bytes()),
      writers_(static_cast<std::size_t>(members.size())),
      readers_(static_cast<std::size_t>(members.size())),
      policies_(static_cast<std::size_t>(members.size())),
      timings_(static_cast<std::size_t>(members.size())),
      stores_(static_cast<std::size_t>(members.size()), Store::kPlain) {}

Status ShmPacketPort::open(int to) {
  if (writer(to).opened()) return {};
  Block block;
  if (Status status = members_.allocate(PacketRing::bytes_for(capacity_), block); !status.ok()) return status;
  map_pages(block.data, PacketRing::bytes_for(capacity_), Access::kWrite);
  writer(to) = RingWriter(new (block.data) PacketRing(), capacity_);
  members_.own().mailboxes(members_.size())[to].store(block.offset + 1, std::memory_order_release);
  return {};
}

void ShmPacketPort::send(int to, const PacketHeader& header) {
  writer(to).publish(header);
  members_.ring(to);
}

Store ShmPacketPort::begin_data(int to, std::size_t bytes) {
  Timing& timing = timings_[static_cast<std::size_t>(to)];
  bool measure = false;
  const Store store = policies_[static_cast<std::size_t>(to)].choose(bytes, true, measure);
  if (measure) timing = {Clock::now(), bytes, 0, store, true};
  stores_[static_cast<std::size_t>(to)] = store;
  return store;
}

void ShmPacketPort::end_data(int to) {
  if (stores_[static_cast<std::size_t>(to)] == Store::kPlain) writer(to).prefetch_next();
  Timing& timing = timings_[static_cast<std::size_t>(to)];
  if (timing.chosen && timing.end == 0) timing.end = writer(to).position();
}

void ShmPacketPort::look_at_timing(int to) {
  Timing& timing = timings_[static_cast<std::size_t>(to)];
  if (timing.end == 0 || writer(to).consumed() < timing.end) return;
  policies_[static_cast<std::size_t>(to)].observe(timing.store, timing.bytes, true, Clock::now() - timing.begin);
  timing = Timing();
}

bool ShmPacketPort::find(int from) {
  const std::uint64_t offset =
      members_.of(from).mailboxes(members_.size())[members_.rank()].load(std::memory_order_acquire);
  if (offset == 0) return false;
  std::byte* ring = members_.address(from, offset - 1, PacketRing::bytes_for(capacity_));
  if (ring == nullptr) return false;
  map_pages(ring, PacketRing::bytes_for(capacity_), Access::kRead);
  reader(from) = RingReader(reinterpret_cast<PacketRing*>(ring), capacity_);
  return true;
}

bool ShmPacketPort::front(int from, PacketHeader& header, const std::byte*& payload) {
  look_at_timing(from);
  if (!reader(from).opened() && !find(from)) return false;
  return reader(from).front(header, payload);
}

void ShmPacketPort::pop(int from) {
  reader(from).pop();
  members_.ring(from);  // it may wait for room
}

Status ShmPacketPort::diagnose(const std::vector<int>& awaited, bool from_anybody) {
  for (int member = 0; member < members_.size(); ++member) {
    if (reader(member).broken())
      return {Code::kSystem, "the messages of " + members_.describe(member) + " are garbled"};
  }
  Status status = members_.diagnose(awaited);
  return status.ok() && from_anybody ? members_.diagnose_anybody() : status;
}

}  // namespace customccl::shm
