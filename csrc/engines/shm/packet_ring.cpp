#include "engines/shm/packet_ring.h"

namespace customccl::shm {

namespace {

// Payloads up to this size the reader has come at once, as soon as it sees the packet, while it finds out whose they are. (Messages of
// 32 B to 2 KiB 1.02 to 1.05x, of 4 KiB 1.2x between near cores. The first 4 KiB of larger packets too: 32 to 512 KiB 1.02x near,
// but 0.97x far. Of what lies in shuttles, Zen 5, far: 2 to 4 KiB 0.91 of the time.)
constexpr std::size_t kReadAhead = 4096;

// From this size on the writer has the lines of a next packet like it come, which in a ring of this size are cold: where other memory was
// used in between, 1 KiB 757 ns to 500, 2 KiB 929 to 786, 4 KiB 1.3 us to 1.1 (round trips, near cores); in a tight loop 1.05x slower.
constexpr std::size_t kFetchFrom = 1024;

// And up to this one: packets of 8 KiB there and back 3.8 us to 2.8, of 16 KiB 5.3 to 4.6, across a mesh (not measured between other cores).
std::size_t fetch_up_to() { return cores_on_mesh() ? 16 << 10 : kReadAhead; }

// Packets that gain from a place that was used lately, as it is nearer to both ends: small ones where nothing is under way, and the pieces
// of messages that fit into a second-level cache.
bool is_small(std::size_t payload) { return payload < 8 << 10; }
bool is_piece(std::size_t payload) { return payload >= 16 << 10 && payload < 32 << 10; }
constexpr std::size_t kWindowOfPieces = 4;

}  // namespace

bool RingWriter::fits(std::size_t bytes) {
  const std::uint64_t end = position_ + bytes + kCacheLine;  // and the line to be zeroed
  if (end - consumed_ <= capacity_) return true;
  consumed_ = ring_->consumed.load(std::memory_order_acquire);
  return end - consumed_ <= capacity_;
}

// Before the packet itself is written: nothing shall come between the stores to its first line (see Frame).
void RingWriter::zero_behind(std::size_t length) {
  const std::size_t end = place_ + length;
  frame_at(end == capacity_ ? 0 : end)->number.store(0, std::memory_order_relaxed);
}

void RingWriter::skip_to_end() {
  PacketHeader skip;
  skip.bytes = PacketRing::kSkip;
  zero_behind(capacity_ - place_);
  commit(skip, {}, capacity_ - place_);
}

// Small packets only when all is read: a sender ahead of its receiver would have to wait for what that has not read, with the rest of
// the ring empty. A piece comes when its receiver waits for it.
void RingWriter::go_back(std::size_t payload) {
  const bool piece = is_piece(payload) && place_ >= kWindowOfPieces * window_;
  if (!piece && !is_small(payload)) return;
  consumed_ = ring_->consumed.load(std::memory_order_acquire);
  const std::size_t to_end = capacity_ - place_;
  if (piece ? fits(to_end + PacketRing::footprint(payload, capacity_)) : consumed_ == position_) {
    skip_to_end();
  } else {
    look_ = place_ + window_;
  }
}

std::byte* RingWriter::reserve(std::size_t payload) {
  if (place_ >= look_) [[unlikely]]
    go_back(payload);
  const std::size_t length = PacketRing::footprint(payload, capacity_);
  const std::size_t to_end = capacity_ - place_;
  if (length > to_end) {
    if (!fits(to_end + length)) return nullptr;
    skip_to_end();
  } else if (!fits(length)) {
    return nullptr;
  }
  zero_behind(length);
  return reinterpret_cast<std::byte*>(frame_at(place_)) + PacketRing::payload_offset(payload);
}

void RingWriter::publish(const PacketHeader& header, const PacketRing::Extra& extra) {
  payload_ = extra.place == 0 ? header.bytes : 0;
  commit(header, extra, PacketRing::footprint(payload_, capacity_));
}

void RingWriter::prefetch_next() const {
  if (payload_ < kFetchFrom || payload_ > fetch_up_to()) return;
  // Not the first line: its reader looks at it.
  for (std::size_t done = kCacheLine; done < kCacheLine + payload_; done += kCacheLine) prefetch(done);
}

void RingWriter::commit(const PacketHeader& header, const PacketRing::Extra& extra, std::size_t length) {
  PacketRing::Frame* frame = frame_at(place_);
  frame->set_header(header, extra);
  frame->number.store(++number_, std::memory_order_release);
  position_ += length;
  place_ += length;
  if (place_ == capacity_) [[unlikely]] {
    place_ = 0;
    look_ = window_;
  }
  prefetch(length);  // the end of a next packet like this one
}

void RingReader::read_ahead(const std::byte* payload, std::size_t bytes) {
  if (bytes > kReadAhead) return;
  for (std::size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(payload + i);
}

bool RingReader::front(PacketHeader& header, const std::byte*& payload) {
  while (!broken_) {
    auto* frame = reinterpret_cast<PacketRing::Frame*>(ring_->data() + place_);
    if (frame->number.load(std::memory_order_acquire) != number_ + 1) return false;
    header = frame->header();
    if (header.bytes == PacketRing::kSkip) {
      length_ = capacity_ - place_;
      extra_ = {};
      pop();
      continue;
    }
    extra_ = frame->extra();
    if (extra_.place != 0) [[unlikely]] {
      length_ = PacketRing::footprint(0, capacity_);
      payload = nullptr;
      return true;
    }
    length_ = PacketRing::footprint(header.bytes, capacity_);
    broken_ = length_ > capacity_ - place_;  // never trust a length from a peer
    payload = reinterpret_cast<const std::byte*>(frame) + PacketRing::payload_offset(header.bytes);
    read_ahead(payload, header.bytes);
    return !broken_;
  }
  return false;
}

void RingReader::pop() {
  position_ += length_;
  place_ = next_place();
  ++number_;
  if (extra_.timed) [[unlikely]]
    ring_->read_at.store(Nanos(Clock::now().time_since_epoch()).count(), std::memory_order_relaxed);
  ring_->consumed.store(position_, std::memory_order_release);
}

}  // namespace customccl::shm
