#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "engines/members_of_one_process.h"
#include "engines/shm/staging.h"

// Where ranks put what they stage, turn by turn.

namespace customccl::test {
namespace {

using shm::Readers;
using shm::Room;
using shm::Staging;
using shm::Traffic;

// Ranks of this process: a place is the same address for all.
template <int kRanks>
class Stagings {
 public:
  Stagings() {
    for (int rank = 0; rank < kRanks; ++rank) stagings_.emplace_back(members_[rank]);
    for (Staging& staging : stagings_) EXPECT_TRUE(staging.ensure_own().ok());
    for (Staging& staging : stagings_) EXPECT_TRUE(staging.ensure_all().ok());
  }
  Staging& operator[](int rank) { return stagings_[static_cast<std::size_t>(rank)]; }
  shm::Members& members(int rank) { return members_[rank]; }

 private:
  MembersOfOneProcess<kRanks> members_;
  std::deque<Staging> stagings_;
};

constexpr int kStagings = 2;
using TwoStagings = Stagings<kStagings>;

struct Written {
  const std::byte* begin;
  const std::byte* end;
  bool meets(const Written& other) const { return begin < other.end && other.begin < end; }
};

// Of what a rank may do in a turn: every kind of traffic and store, from a few bytes to several slots.
std::vector<Written> places_of(Staging& staging, std::uint64_t turn) {
  std::vector<Written> places;
  const std::size_t slot = staging.slot_bytes();
  for (const Traffic traffic : {Traffic::kBothWays, Traffic::kUneven, Traffic::kFromOne, Traffic::kToOne}) {
    for (const std::size_t bytes : {std::size_t{64}, slot / 100, slot / 4, slot / 2, slot, 3 * slot}) {
      const std::size_t chunk = std::min(bytes, staging.chunk_bytes(bytes, traffic));
      for (const Readers readers : {Readers::kAll, Readers::kOneEach}) {
        const Room room = staging.room_for(chunk, shm::ceil_div(bytes, chunk), readers, traffic);
        for (const Store store : {Store::kPlain, Store::kStreaming}) {
          const std::byte* begin = staging.own_slot(turn, room, store);
          places.push_back({begin, begin + chunk});
        }
      }
    }
  }
  return places;
}

bool meet(const std::vector<Written>& some, const std::vector<Written>& others) {
  for (const Written& one : some) {
    for (const Written& other : others) {
      if (one.meets(other)) return true;
    }
  }
  return false;
}

// Whatever each rank does: what one writes in a turn, no other writes in it, and nobody in the next one, while it is read.
template <int kMembers>
void expect_nothing_in_common() {
  Stagings<kMembers> stagings;
  for (std::uint64_t turn = 1; turn < 40; ++turn) {
    const auto first = places_of(stagings[0], turn);
    const auto last = places_of(stagings[kMembers - 1], turn);
    EXPECT_FALSE(meet(first, last)) << "turn " << turn;
    for (int rank = 0; rank < kMembers; ++rank) {
      const auto next = places_of(stagings[rank], turn + 1);
      EXPECT_FALSE(meet(first, next)) << "turn " << turn << ", and the next one of rank " << rank;
      EXPECT_FALSE(meet(last, next)) << "turn " << turn << ", and the next one of rank " << rank;
    }
  }
}

TEST(Staging, OfOneTurnAndOfTheNextOneHasNothingInCommonWithAnotherRanks) {
  expect_nothing_in_common<2>();
  expect_nothing_in_common<7>();
}

// So many places a rank goes through with 60 KiB per turn.
template <int kMembers>
std::size_t places(Readers readers) {
  Stagings<kMembers> stagings;
  const Room room = stagings[0].room_for(60 << 10, 1, readers, Traffic::kUneven);
  std::set<const std::byte*> found;
  for (std::uint64_t turn = 1; turn < 1000; ++turn) found.insert(stagings[0].own_slot(turn, room, Store::kPlain));
  return found.size();
}

TEST(Staging, OfLargeGroupsTakesFewerPlacesForWhatEachReadsAPartOf) {
  EXPECT_EQ(places<4>(Readers::kOneEach), places<4>(Readers::kAll));
  EXPECT_EQ(places<16>(Readers::kAll), places<4>(Readers::kAll));
  EXPECT_GT(places<4>(Readers::kAll), 2 * Staging::kSlots);
  EXPECT_EQ(places<16>(Readers::kOneEach), Staging::kSlots);
}

// A turn in which both ranks stage as much, by plain stores.
struct Exchange { std::array<const std::byte*, kStagings> places; };

// Operations of one to three turns that stage, with other turns between them.
std::vector<Exchange> exchange_in_operations(TwoStagings& stagings) {
  std::vector<Exchange> uses;
  const Room room = stagings[0].room_for(5000, 1, Readers::kAll, Traffic::kBothWays);
  EXPECT_TRUE(room.exchanged);
  std::uint64_t turn = 1;
  for (int operation = 0; operation < 60; ++operation) {
    turn += static_cast<std::uint64_t>(operation % 5 % 3);  // others' turns
    const auto turns = static_cast<std::uint64_t>(1 + operation % 3);
    for (int rank = 0; rank < kStagings; ++rank) stagings[rank].begin(turn);
    for (const std::uint64_t end = turn + turns; turn < end; ++turn) {
      uses.push_back(
          {{stagings[0].own_slot(turn, room, Store::kPlain), stagings[1].own_slot(turn, room, Store::kPlain)}});
    }
    for (int rank = 0; rank < kStagings; ++rank) stagings[rank].end(turns);
  }
  return uses;
}

TEST(Staging, OfTwoRanksIsWrittenWhereThePeerWroteTwoUsesBefore) {
  TwoStagings stagings;
  if (!stagings[0].room_for(5000, 1, Readers::kAll, Traffic::kBothWays).exchanged)
    GTEST_SKIP() << "not on this processor";
  const std::vector<Exchange> uses = exchange_in_operations(stagings);
  for (std::size_t use = 2; use < uses.size(); ++use) {
    const auto& [first, second] = uses[use].places;
    EXPECT_EQ(first, uses[use - 2].places[1]) << "use " << use;
    EXPECT_EQ(second, uses[use - 2].places[0]) << "use " << use;
    for (const std::byte* before : uses[use - 1].places) {
      EXPECT_NE(first, before) << "use " << use;
      EXPECT_NE(second, before) << "use " << use;
    }
  }
}

TEST(Staging, IsReadWhereItWasWritten) {
  TwoStagings stagings;
  for (std::uint64_t turn = 1; turn < 20; ++turn) {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{5000}, std::size_t{100'000}}) {
      for (const Traffic traffic : {Traffic::kBothWays, Traffic::kUneven, Traffic::kFromOne}) {
        const Room room = stagings[1].room_for(bytes, 1, Readers::kAll, traffic);
        const Store store = (turn + bytes) % 3 == 0 ? Store::kStreaming : Store::kPlain;
        shm::Members& writer = stagings.members(1);
        writer.publish(writer.own_line(turn), turn, store);
        EXPECT_EQ(stagings[0].slot(1, turn, room).data, stagings[1].own_slot(turn, room, store))
            << turn << ' ' << bytes;
      }
    }
  }
}

}  // namespace
}  // namespace customccl::test
