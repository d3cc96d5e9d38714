#include "engines/shm/packet_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "support/dice.h"
#include "support/ranks.h"

namespace customccl::test {
namespace {

using shm::PacketRing;
using shm::RingReader;
using shm::RingWriter;

constexpr std::size_t kCapacity = 4096;
constexpr std::size_t kLargeCapacity = 128 << 10;  // where packets of some lines have a gap behind them
constexpr std::size_t kWindow = 16 << 10;          // where small packets go back to the begin

// The memory of a ring as the arena gives it: zero.
class RingMemory {
 public:
  explicit RingMemory(std::size_t capacity = kCapacity)
      : memory_(new (std::align_val_t(128)) std::byte[PacketRing::bytes_for(capacity)]()) {
    ring_ = new (memory_) PacketRing();
  }
  ~RingMemory() { ::operator delete[](memory_, std::align_val_t(128)); }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;
  PacketRing* ring() { return ring_; }

 private:
  std::byte* memory_;
  PacketRing* ring_;
};

PacketHeader header_of(std::uint64_t number, std::size_t bytes) {
  PacketHeader header;
  header.tag = static_cast<std::int64_t>(number);
  header.total = bytes;
  header.bytes = static_cast<std::uint32_t>(bytes);
  return header;
}

bool send(RingWriter& writer, std::uint64_t number, std::size_t bytes) {
  std::byte* room = writer.reserve(bytes);
  if (room == nullptr) return false;
  for (std::size_t i = 0; i < bytes; ++i) room[i] = static_cast<std::byte>(number + i);
  writer.publish(header_of(number, bytes));
  return true;
}

// Takes the packet at the front; false: none. Any difference is a test failure.
bool take(RingReader& reader, std::uint64_t number, std::size_t bytes) {
  PacketHeader header;
  const std::byte* payload = nullptr;
  if (!reader.front(header, payload)) return false;
  EXPECT_EQ(header.tag, static_cast<std::int64_t>(number));
  EXPECT_EQ(header.bytes, bytes);
  for (std::size_t i = 0; i < header.bytes; ++i) {
    if (payload[i] != static_cast<std::byte>(number + i)) ADD_FAILURE() << "byte " << i << " of packet " << number;
  }
  reader.pop();
  return true;
}

std::size_t some_size(Dice& dice, std::size_t capacity = kCapacity) {
  if (dice.one_in(3)) return dice.below(std::uint64_t{25});
  const std::size_t most = capacity > kCapacity && dice.one_in(2) ? std::size_t{10'000} : capacity / 4;
  return dice.below(std::uint64_t{most + 1});
}

TEST(PacketRing, IsEmptyAtFirst) {
  RingMemory memory;
  RingReader reader(memory.ring(), kCapacity);
  EXPECT_FALSE(take(reader, 0, 0));
}

TEST(PacketRing, RefusesWhatDoesNotFitAndTakesItOnceThereIsRoom) {
  RingMemory memory;
  RingWriter writer(memory.ring(), kCapacity, kCapacity);
  RingReader reader(memory.ring(), kCapacity);
  std::uint64_t sent = 0;
  while (send(writer, sent, 700)) ++sent;
  EXPECT_GE(sent, 3u);
  EXPECT_FALSE(send(writer, sent, 700));
  std::uint64_t taken = 0;
  while (!send(writer, sent, 700)) ASSERT_TRUE(take(reader, taken++, 700));
  EXPECT_LE(taken, 2u);  // one for its room, one for what is left unused at the end
  for (std::uint64_t number = taken; number <= sent; ++number) EXPECT_TRUE(take(reader, number, 700));
  EXPECT_FALSE(take(reader, sent + 1, 0));
}

TEST(PacketRing, CarriesTheFrameAloneOfAPayloadThatLiesElsewhere) {
  RingMemory memory;
  RingWriter writer(memory.ring(), kCapacity, kCapacity);
  RingReader reader(memory.ring(), kCapacity);
  for (std::uint16_t number = 1; number < 200; ++number) {
    ASSERT_NE(writer.reserve(0), nullptr);
    const auto place = static_cast<std::uint16_t>(number * 327);
    writer.publish(header_of(number, 1 << 20), {place, false});
    PacketHeader header;
    const std::byte* payload = nullptr;
    ASSERT_TRUE(reader.front(header, payload));
    EXPECT_EQ(header.bytes, 1u << 20);
    EXPECT_EQ(payload, nullptr);
    EXPECT_EQ(reader.place(), place);
    reader.pop();
    EXPECT_EQ(memory.ring()->consumed.load() - writer.position(), 0u);
    ASSERT_TRUE(send(writer, number, 100));
    ASSERT_TRUE(take(reader, number, 100));
    EXPECT_EQ(reader.place(), 0);
  }
}

TEST(PacketRing, TellsWhenATimedPacketWasRead) {
  RingMemory memory;
  RingWriter writer(memory.ring(), kCapacity, kCapacity);
  RingReader reader(memory.ring(), kCapacity);
  ASSERT_NE(writer.reserve(8), nullptr);
  writer.publish(header_of(0, 8), {0, true});
  PacketHeader header;
  const std::byte* payload = nullptr;
  ASSERT_TRUE(reader.front(header, payload));
  EXPECT_EQ(header.kind, PacketHeader::Kind::kEager);
  const Clock::time_point before = Clock::now();
  reader.pop();
  const Clock::time_point after = Clock::now();
  EXPECT_LE(before, writer.read_at());
  EXPECT_LE(writer.read_at(), after);
  const Clock::time_point told = writer.read_at();
  ASSERT_NE(writer.reserve(8), nullptr);
  writer.publish(header_of(1, 8));
  ASSERT_TRUE(reader.front(header, payload));
  reader.pop();
  EXPECT_EQ(writer.read_at(), told) << "others tell nothing";
}

TEST(PacketRing, AlwaysHasRoomForTheLargestPacketWhenItIsEmptyWhereverItStands) {
  RingMemory memory;
  RingWriter writer(memory.ring(), kCapacity, kCapacity);
  RingReader reader(memory.ring(), kCapacity);
  std::uint64_t number = 0;
  for (std::size_t step = 0; step < 3 * kCapacity / 64; ++step) {
    ASSERT_TRUE(send(writer, number, 0));
    ASSERT_TRUE(take(reader, number++, 0));
    ASSERT_TRUE(send(writer, number, kCapacity / 4)) << "after " << step << " lines";
    ASSERT_TRUE(take(reader, number++, kCapacity / 4));
  }
}

TEST(PacketRing, UsesItsFirstPlacesAgainForSmallPacketsThatAreReadAtOnce) {
  RingMemory memory(kLargeCapacity);
  RingWriter writer(memory.ring(), kLargeCapacity, kWindow);
  RingReader reader(memory.ring(), kLargeCapacity);
  const auto offset_of_next = [&] { return static_cast<std::size_t>(writer.reserve(1000) - memory.ring()->data()); };
  std::uint64_t number = 0;
  for (; number < 1000; ++number) {
    ASSERT_LT(offset_of_next(), kWindow + kCacheLine);
    ASSERT_TRUE(send(writer, number, 1000));
    ASSERT_TRUE(take(reader, number, 1000));
  }
  // While one is unread they go on to new places.
  std::uint64_t unread = number;
  while (offset_of_next() < kLargeCapacity / 2) ASSERT_TRUE(send(writer, number++, 1000));
  for (; unread < number; ++unread) ASSERT_TRUE(take(reader, unread, 1000));
  // Once all are read they go back, at most a window further on.
  bool back = false;
  for (std::size_t sent = 0; sent <= kWindow && !back; sent += 1000) {
    ASSERT_TRUE(send(writer, number, 1000));
    ASSERT_TRUE(take(reader, number++, 1000));
    back = offset_of_next() < kWindow;
  }
  EXPECT_TRUE(back);
}

TEST(PacketRing, UsesFourWindowsAgainForPiecesWhoseReaderKeepsUp) {
  constexpr std::size_t kPiece = 16 << 10;
  RingMemory memory(kLargeCapacity);
  RingWriter writer(memory.ring(), kLargeCapacity, kWindow);
  RingReader reader(memory.ring(), kLargeCapacity);
  const auto offset_of_next = [&] { return static_cast<std::size_t>(writer.reserve(kPiece) - memory.ring()->data()); };
  std::uint64_t number = 0;
  ASSERT_TRUE(send(writer, number, kPiece));
  for (; number < 100; ++number) {  // always one unread
    ASSERT_LT(offset_of_next(), 4 * kWindow + kCacheLine);
    ASSERT_TRUE(send(writer, number + 1, kPiece));
    ASSERT_TRUE(take(reader, number, kPiece));
  }
  // While nothing is read they fill the ring.
  ASSERT_TRUE(take(reader, number++, kPiece));
  while (offset_of_next() >= kPiece) {
    ASSERT_TRUE(send(writer, number, kPiece));
    ASSERT_TRUE(take(reader, number++, kPiece));
  }
  EXPECT_FALSE(take(reader, number, kPiece));  // it passes what was left out
  std::uint64_t sent = number;
  while (send(writer, sent, kPiece)) ++sent;
  EXPECT_EQ(sent - number, kLargeCapacity / PacketRing::footprint(kPiece, kLargeCapacity));
  for (; number < sent; ++number) ASSERT_TRUE(take(reader, number, kPiece));
}

struct Sizes {
  std::size_t capacity;
  std::size_t window;
};

class PacketRings : public testing::TestWithParam<Sizes> {};

TEST_P(PacketRings, KeepsOrderAndContentsForRandomSizesAndFillings) {
  const auto [capacity, window] = GetParam();
  RingMemory memory(capacity);
  RingWriter writer(memory.ring(), capacity, window);
  RingReader reader(memory.ring(), capacity);
  Dice order(1), sizes_sent(2), sizes_taken(2);
  std::uint64_t sent = 0, taken = 0;
  std::size_t next = some_size(sizes_sent, capacity), expected = some_size(sizes_taken, capacity);
  for (int step = rounds(60'000); step > 0; --step) {
    if (order.one_in(2)) {
      if (!send(writer, sent, next)) continue;
      ++sent;
      next = some_size(sizes_sent, capacity);
    } else if (take(reader, taken, expected)) {
      ++taken;
      expected = some_size(sizes_taken, capacity);
    } else {
      ASSERT_EQ(sent, taken);
    }
  }
}

TEST_P(PacketRings, CarriesPacketsFromOneThreadToAnother) {
  const Watchdog watchdog("a writer and a reader of a ring");
  const auto [capacity, window] = GetParam();
  RingMemory memory(capacity);
  const auto count = static_cast<std::uint64_t>(rounds(40'000));
  std::thread writing([&, size = capacity, begin = window] {
    RingWriter writer(memory.ring(), size, begin);
    Dice dice(5);
    for (std::uint64_t number = 0; number < count; ++number) {
      for (const std::size_t bytes = some_size(dice, size); !send(writer, number, bytes);) std::this_thread::yield();
    }
  });
  RingReader reader(memory.ring(), capacity);
  Dice dice(5);
  for (std::uint64_t number = 0; number < count; ++number) {
    for (const std::size_t bytes = some_size(dice, capacity); !take(reader, number, bytes);) std::this_thread::yield();
  }
  writing.join();
}

INSTANTIATE_TEST_SUITE_P(Capacities, PacketRings,
                         testing::Values(Sizes{kCapacity, kCapacity}, Sizes{kLargeCapacity, kLargeCapacity},
                                         Sizes{kLargeCapacity, kWindow}));

TEST(PacketRing, EndsForGoodAtALengthThatCannotBeRight) {
  for (const std::uint32_t bytes : {std::uint32_t{kCapacity}, std::uint32_t{0xfffffffe}, std::uint32_t{0x80000000}}) {
    RingMemory memory;
    auto* frame = reinterpret_cast<PacketRing::Frame*>(memory.ring()->data());
    frame->set_header(header_of(1, bytes), {});
    frame->number.store(1);
    RingReader reader(memory.ring(), kCapacity);
    PacketHeader header;
    const std::byte* payload = nullptr;
    EXPECT_FALSE(reader.front(header, payload));
    EXPECT_TRUE(reader.broken());
    EXPECT_FALSE(reader.front(header, payload));
  }
}

}  // namespace
}  // namespace customccl::test
