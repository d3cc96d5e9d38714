#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "core/mailbox.h"
#include "support/ranks.h"

namespace customccl::test {
namespace {

constexpr Nanos kLong = std::chrono::minutes(5);

bool never() { return false; }
bool always() { return true; }

Call parcel_call(Op op, int peer, std::int64_t tag) {
  Call call;
  call.op = op;
  call.parcel = true;
  call.peer = peer;
  call.tag = tag;
  return call;
}

std::byte value_at(std::size_t index, std::uint64_t seed) {
  return static_cast<std::byte>(index * 7 + index / 251 + seed);
}

// Sends `bytes` in runs of which the first is `head` long.
Status send_parcel(Communicator& group, int to, std::int64_t tag, std::size_t head, std::size_t bytes,
                   std::uint64_t seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = value_at(i, seed);
  std::vector<View> views{{data.data(), nullptr, 0, head}};
  for (std::size_t at = head; at < bytes;) {
    const std::size_t part = std::min<std::size_t>(bytes - at, 1 + at % 40'000);
    views.push_back({data.data() + at, nullptr, 0, part});
    at += part;
  }
  Call call = parcel_call(Op::kSend, to, tag);
  call.inputs = views;
  return group.run(call);
}

std::string content_error(const std::byte* data, std::size_t first, std::size_t bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (data[i] != value_at(first + i, seed)) return "byte " + std::to_string(first + i) + " is wrong";
  }
  return "";
}

// Receives one and has its rest put into two runs. What is wrong with it, or "".
std::string receive_parcel(Communicator& group, int from, std::int64_t tag, std::size_t head, std::size_t bytes,
                           std::uint64_t seed) {
  std::shared_ptr<Message> parcel;
  if (Status status = group.receive_parcel(parcel_call(Op::kRecv, from, tag), kLong, never, parcel); !status.ok())
    return status.message();
  if (parcel->header.total != bytes) return "it has " + std::to_string(parcel->header.total) + " bytes";
  const std::size_t there = parcel->header.bytes;
  if (there != (bytes <= group.parcel_limit() ? bytes : head)) return std::to_string(there) + " bytes came at once";
  if (std::string error = content_error(parcel->data.get(), 0, there, seed); !error.empty()) return error;
  if (there == bytes) return "";
  std::vector<std::byte> rest(bytes - there);
  const std::size_t half = rest.size() / 2;
  const View room[]{{rest.data(), nullptr, 0, half}, {rest.data() + half, nullptr, 0, rest.size() - half}};
  Call call = parcel_call(Op::kRecv, parcel->source, 0);
  call.outputs = room;
  if (Status status = group.fetch(call, parcel); !status.ok()) return status.message();
  return content_error(rest.data(), there, rest.size(), seed);
}

TEST(Parcels, OfEverySizeArriveWhole) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    std::uint64_t seed = 0;
    for (const std::size_t bytes : {1, 24, 25, 1000, 65'535, 65'536, 65'537, 300'000, 3'000'001}) {
      for (const std::size_t head : {std::size_t{1}, std::min<std::size_t>(bytes, 20'000)}) {
        ++seed;
        if (rank.number() == 0) {
          const Status status = send_parcel(*group, 1, 5, head, bytes, seed);
          ASSERT_TRUE(status.ok()) << status.message();
        } else {
          ASSERT_EQ(receive_parcel(*group, seed % 2 == 0 ? 0 : kAnySource, 5, head, bytes, seed), "") << bytes;
        }
      }
    }
  });
}

TEST(Parcels, KeepTheirOrderAndWaitAsideForTheirReader) {
  run_threads(3, [](const Rank& rank) {
    const auto group = rank.join("g");
    constexpr int kCount = 60;
    const auto size_of_turn = [](int turn) { return std::size_t{100} + static_cast<std::size_t>(turn % 4) * 40'000; };
    if (rank.number() == 0) {
      for (int turn = 0; turn < kCount; ++turn) {
        for (const int from : {2, 1}) {
          const auto seed = static_cast<std::uint64_t>(turn * 3 + from);
          ASSERT_EQ(receive_parcel(*group, from, from, 100, size_of_turn(turn), seed), "") << turn;
        }
      }
    } else {
      for (int turn = 0; turn < kCount; ++turn) {
        const auto seed = static_cast<std::uint64_t>(turn * 3 + rank.number());
        const Status status = send_parcel(*group, 0, rank.number(), 100, size_of_turn(turn), seed);
        ASSERT_TRUE(status.ok()) << status.message();
      }
    }
  });
}

TEST(Parcels, CanBeThrownAway) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 0) {
      const Status status = send_parcel(*group, 1, 0, 16, 1'000'000, 1);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(send_parcel(*group, 1, 0, 16, 100'000, 2).ok());
    } else {
      std::shared_ptr<Message> parcel;
      ASSERT_TRUE(group->receive_parcel(parcel_call(Op::kRecv, 0, 0), kLong, never, parcel).ok());
      const Status status = group->fetch(parcel_call(Op::kRecv, 0, 0), parcel);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(receive_parcel(*group, 0, 0, 16, 100'000, 2), "");
    }
  });
}

TEST(Parcels, AreProbedWithoutBeingTaken) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 0) {
      ASSERT_TRUE(send_parcel(*group, 1, 8, 10, 500, 3).ok());
      return;
    }
    std::uint64_t bytes = 0;
    EXPECT_EQ(group->probe(parcel_call(Op::kRecv, 0, 9), bytes), -1);
    while (group->probe(parcel_call(Op::kRecv, kAnySource, 8), bytes) < 0) std::this_thread::yield();
    EXPECT_EQ(bytes, 500U);
    EXPECT_EQ(receive_parcel(*group, 0, 8, 10, 500, 3), "");
  });
}

TEST(Parcels, AwaitedInVainLeaveTheGroupAsItIs) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    if (rank.number() == 1) {
      std::shared_ptr<Message> parcel;
      const Call call = parcel_call(Op::kRecv, 0, 0);
      EXPECT_EQ(group->receive_parcel(call, std::chrono::milliseconds(5), never, parcel).code, Code::kTimeout);
      EXPECT_EQ(group->receive_parcel(call, kLong, always, parcel).code, Code::kAborted);
      EXPECT_TRUE(group->health().ok());
    }
    rank.meet("waited");
    if (rank.number() == 0) {
      ASSERT_TRUE(send_parcel(*group, 1, 0, 10, 70'000, 4).ok());
    } else {
      ASSERT_EQ(receive_parcel(*group, 0, 0, 10, 70'000, 4), "");
    }
  });
}

TEST(Parcels, ToOneselfAreTakenWhole) {
  run_threads(1, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const std::size_t bytes : {10, 1'000'000}) {
      ASSERT_TRUE(send_parcel(*group, 0, 1, 10, bytes, 5).ok());
      std::shared_ptr<Message> parcel;
      ASSERT_TRUE(group->receive_parcel(parcel_call(Op::kRecv, 0, 1), kLong, never, parcel).ok());
      ASSERT_EQ(parcel->header.bytes, bytes);
      ASSERT_EQ(content_error(parcel->data.get(), 0, bytes, 5), "");
    }
  });
}

// What happens while receive_parcel() waits in vain: it asks interrupted() then.
thread_local std::function<bool()> meanwhile;
bool happens() { return meanwhile(); }

TEST(Parcels, ToOneselfReachWhoWaits) {
  run_threads(1, [](const Rank& rank) {
    const auto group = rank.join("g");
    for (const int from : {0, kAnySource}) {
      for (const std::size_t bytes : {10, 1'000'000}) {
        meanwhile = [&, sent = false]() mutable {
          if (!std::exchange(sent, true)) {
            EXPECT_TRUE(send_parcel(*group, 0, 1, 10, bytes, 5).ok());
          }
          return false;
        };
        std::shared_ptr<Message> parcel;
        ASSERT_TRUE(group->receive_parcel(parcel_call(Op::kRecv, from, 1), kLong, happens, parcel).ok());
        ASSERT_EQ(parcel->header.bytes, bytes);
        ASSERT_EQ(content_error(parcel->data.get(), 0, bytes, 5), "");
      }
    }
  });
}

TEST(Parcels, ThatComeWhileTheReaderIsInterruptedStay) {
  for (const std::size_t bytes : {500, 300'000}) {
    run_threads(2, [bytes](const Rank& rank) {
      const auto group = rank.join("g");
      if (rank.number() == 0) {
        rank.meet("waiting");
        std::vector<std::byte> data(bytes);
        for (std::size_t i = 0; i < bytes; ++i) data[i] = value_at(i, 7);
        const View views[]{{data.data(), nullptr, 0, 10}, {data.data() + 10, nullptr, 0, bytes - 10}};
        Call call = parcel_call(Op::kSend, 1, 8);
        call.inputs = views;
        const auto first = std::make_shared<Task>(call, kLong);
        group->post(first);
        EXPECT_TRUE(send_parcel(*group, 1, 8, 10, 600, 8).ok());
        EXPECT_TRUE(send_parcel(*group, 1, 9, 10, 10, 1).ok());  // behind the others, in the same ring
        rank.meet("read");
        EXPECT_TRUE(first->done());
        return;
      }
      std::uint64_t size = 0;
      meanwhile = [&] {
        rank.meet("waiting");
        while (group->probe(parcel_call(Op::kRecv, 0, 9), size) < 0) std::this_thread::yield();
        return true;
      };
      std::shared_ptr<Message> parcel;
      const Call call = parcel_call(Op::kRecv, 0, 8);
      EXPECT_EQ(group->receive_parcel(call, kLong, happens, parcel).code, Code::kAborted);
      EXPECT_EQ(parcel, nullptr);
      EXPECT_EQ(receive_parcel(*group, 0, 8, 10, bytes, 7), "");
      EXPECT_EQ(receive_parcel(*group, 0, 8, 10, 600, 8), "");
      EXPECT_EQ(receive_parcel(*group, 0, 9, 10, 10, 1), "");
      rank.meet("read");
    });
  }
}

TEST(Parcels, DrainDoesNotWaitForWhoOnlyListens) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    std::atomic<bool> listens = false;
    std::atomic<bool> enough = false;
    std::thread listener([&] {
      meanwhile = [&] {
        listens = true;
        return enough.load();
      };
      std::shared_ptr<Message> parcel;
      EXPECT_EQ(group->receive_parcel(parcel_call(Op::kRecv, kAnySource, 0), kLong, happens, parcel).code,
                Code::kAborted);
    });
    while (!listens) std::this_thread::yield();
    EXPECT_TRUE(group->drain(kLong));
    EXPECT_FALSE(enough);
    enough = true;
    listener.join();
    rank.meet("end");
  });
}

TEST(Parcels, DrainWaitsForWhatWasPosted) {
  run_threads(2, [](const Rank& rank) {
    const auto group = rank.join("g");
    EXPECT_TRUE(group->drain(kLong));
    auto task = std::make_shared<Task>(Call(), kLong);  // a barrier
    if (rank.number() == 0) {
      group->post(task);
      EXPECT_FALSE(group->drain(std::chrono::milliseconds(5)));
      rank.meet("posted");
    } else {
      rank.meet("posted");
      group->post(task);
    }
    EXPECT_TRUE(group->drain(kLong));
    EXPECT_TRUE(task->done());
  });
}

}  // namespace
}  // namespace customccl::test
