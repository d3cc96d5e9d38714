#include "engines/shm/shuttles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "support/dice.h"

namespace customccl::test {
namespace {

using shm::Shuttles;

constexpr std::size_t kShuttleBytes = 16 << 10;

// Both ends, and what is on its way from each.
struct Pair {
  struct Piece {
    Shuttles::Place place;
    std::vector<std::byte> wanted;
  };
  struct End {
    Shuttles shuttles;
    std::deque<Piece> sent;
    std::optional<std::size_t> left;  // of the message it writes
  };

  Pair() {
    for (std::size_t end = 0; end < 2; ++end) {
      ends[end].shuttles.set_bytes(kShuttleBytes);
      memory[end].resize(kShuttleBytes);
      ends[end].shuttles.add(true, memory[end].data());
    }
    for (std::size_t end = 0; end < 2; ++end) ends[end].shuttles.add(false, memory[1 - end].data());
  }

  bool begin(std::size_t end, std::size_t bytes) {
    if (!ends[end].shuttles.board(bytes)) return false;
    ends[end].left = bytes;
    return true;
  }
  void write(std::size_t end, std::size_t bytes) {
    End& from = ends[end];
    const bool last = bytes == *from.left;
    std::byte* room = from.shuttles.room();
    Piece piece;
    for (std::size_t i = 0; i < bytes; ++i) {
      room[i] = static_cast<std::byte>(next + i);
      piece.wanted.push_back(room[i]);
    }
    ++next;
    piece.place = from.shuttles.put(bytes, last);
    from.sent.push_back(std::move(piece));
    from.left = last ? std::nullopt : std::optional(*from.left - bytes);
  }
  // Nobody has written over what is on its way.
  void read(std::size_t end) {
    std::deque<Piece>& arriving = ends[1 - end].sent;
    const Piece piece = std::move(arriving.front());
    arriving.pop_front();
    const std::byte* data = ends[end].shuttles.at(piece.place, piece.wanted.size());
    ASSERT_NE(data, nullptr);
    EXPECT_TRUE(std::equal(piece.wanted.begin(), piece.wanted.end(), data));
    ends[end].shuttles.taken(piece.place);
  }

  std::array<std::vector<std::byte>, 2> memory;
  std::array<End, 2> ends;
  std::size_t next = 1;
};

TEST(Shuttles, CarryWhatTheirSenderWroteWhateverTheOrderOfWritingAndReading) {
  Dice dice(71);
  Pair pair;
  std::size_t begun = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto end = static_cast<std::size_t>(dice.below(2));
    if (dice.below(2) == 0 && !pair.ends[1 - end].sent.empty()) {
      pair.read(end);
    } else if (pair.ends[end].left) {
      const std::size_t left = *pair.ends[end].left;
      pair.write(end, std::min(left, (1 + dice.below(std::uint64_t{6})) * 1024));
    } else {
      begun += pair.begin(end, Shuttles::kLeastMessage + dice.below(kShuttleBytes - Shuttles::kLeastMessage)) ? 1 : 0;
    }
  }
  EXPECT_GT(begun, 1000u);
}

TEST(Shuttles, GoToAndFro) {
  Pair pair;
  const std::byte* used = nullptr;
  for (std::size_t turn = 0; turn < 10; ++turn) {
    ASSERT_TRUE(pair.begin(turn % 2, 4096));
    const std::byte* room = pair.ends[turn % 2].shuttles.room();
    if (turn > 0) {
      EXPECT_EQ(room, used) << "an answer is written where the question was read";
    }
    used = room;
    pair.write(turn % 2, 4096);
    pair.read(1 - turn % 2);
  }
}

TEST(Shuttles, OfWhoOnlySendsAreSoonAllGone) {
  Pair pair;
  for (std::size_t end = 0; end < 2; ++end) {
    while (pair.begin(end, 4096)) {
      pair.write(end, 4096);
      pair.read(1 - end);
    }
    EXPECT_EQ(end == 0, pair.ends[1].shuttles.board(4096)) << "both are with the other end now";
  }
}

TEST(Shuttles, TakeNoMessageThatIsTooShortOrTooLong) {
  Pair pair;
  EXPECT_FALSE(pair.begin(0, Shuttles::kLeastMessage - 1));
  EXPECT_FALSE(pair.begin(0, kShuttleBytes + 1));
  EXPECT_TRUE(pair.begin(0, kShuttleBytes));
}

// Places come from a peer.
TEST(Shuttles, HaveNothingAtAPlaceBehindTheirEnd) {
  Pair pair;
  ASSERT_TRUE(pair.begin(0, kShuttleBytes));
  const Shuttles::Place begin = pair.ends[0].shuttles.put(64, false);
  EXPECT_NE(pair.ends[1].shuttles.at(begin, kShuttleBytes), nullptr);
  EXPECT_EQ(pair.ends[1].shuttles.at(begin, kShuttleBytes + 1), nullptr);
  for (int place = 0; place <= 0xffff; ++place) {
    const std::byte* data = pair.ends[1].shuttles.at(static_cast<Shuttles::Place>(place), 64);
    if (data == nullptr) continue;
    const auto inside = [data](const std::vector<std::byte>& memory) {
      return data >= memory.data() && data + 64 <= memory.data() + memory.size();
    };
    EXPECT_TRUE(inside(pair.memory[0]) || inside(pair.memory[1])) << place;
  }
}

TEST(Shuttles, OfAnUnknownPeerHaveNothing) {
  Shuttles alone;
  alone.set_bytes(kShuttleBytes);
  for (int place = 0; place <= 0xffff; ++place) EXPECT_EQ(alone.at(static_cast<Shuttles::Place>(place), 64), nullptr);
  // More arrive than there are.
  for (int i = 0; i < 5; ++i) alone.taken(0xffff);
}

}  // namespace
}  // namespace customccl::test
