#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "core/communicator.h"
#include "core/message_lane.h"
#include "support/letter.h"
#include "support/ranks.h"
#include "support/scripted_port.h"

namespace customccl::test {

// Messages that begin without a task, over a port that holds what the test puts there: moments that are hard to hit with real ranks.
class MessageBegin : public testing::Test {
 protected:
  using Begun = Lane::Begun;
  using Kind = PacketHeader::Kind;

  MessageBegin() {
    const auto board = [this](const std::string& group) { return std::make_unique<BoardBootstrap>(board_, group); };
    std::thread peer([&] { peers_ = Rank(1, 2, board).join("g"); });
    group_ = Rank(0, 2, board).join("g");
    peer.join();
    lane_ = std::make_unique<MessageLane>(*group_, &port_, 0, 2);
  }

  // Elements [first, first + count) of the letter with that seed lie in the ring from rank 1, even such as it does not have.
  void arrive(std::uint64_t seed, std::int64_t tag, std::size_t total, std::size_t first, std::size_t count) {
    Packet packet;
    packet.header = {tag,
                     total * sizeof(std::int32_t),
                     0,
                     static_cast<std::uint32_t>(count * sizeof(std::int32_t)),
                     first == 0 ? Kind::kEager : Kind::kMore,
                     DType::kInt32};
    const std::size_t end = std::max(total, first + count);
    const std::vector<std::byte> all = Pattern(DType::kInt32, seed, end).take(end);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * sizeof(std::int32_t));
    packet.payload.assign(begin, begin + static_cast<std::ptrdiff_t>(packet.header.bytes));
    port_.arrived.push_back(packet);
  }
  void arrive(std::uint64_t seed, std::int64_t tag) { arrive(seed, tag, kSmall, 0, kSmall); }

  Begun begin(const Letter& letter) { return lane_->begin(letter.call(), 1, ended_); }
  std::shared_ptr<Task> go_on(const Letter& letter, Begun begun) {
    auto task = std::make_shared<Task>(letter.call(), std::chrono::hours(1));
    lane_->continue_as(*task, begun, task);
    return task;
  }
  // By whichever way: received, and right.
  void expect_now(const Letter& letter) {
    const Begun begun = begin(letter);
    if (begun != Begun::kOver) {
      const auto task = go_on(letter, begun);
      ASSERT_TRUE(task->done());
      ASSERT_TRUE(task->status().ok()) << task->status().message();
      EXPECT_EQ(task->source(), 1);
    }
    EXPECT_EQ(letter.verify(), "");
  }
  std::string sent() const {
    std::string kinds;
    for (const Packet& packet : port_.sent) kinds += packet.header.kind == Kind::kEager ? 'e' : 'm';
    return kinds;
  }
  // What was sent is the letter, once.
  void expect_sent(std::uint64_t seed, std::size_t count) {
    std::vector<std::byte> all;
    for (const Packet& packet : port_.sent) all.insert(all.end(), packet.payload.begin(), packet.payload.end());
    ASSERT_EQ(all.size(), count * sizeof(std::int32_t));
    EXPECT_EQ(Pattern(DType::kInt32, seed, count).first_difference(all), -1);
  }

  Board board_;
  std::shared_ptr<Communicator> peers_;
  std::shared_ptr<Communicator> group_;
  ScriptedPort port_;
  std::unique_ptr<MessageLane> lane_;
  Ended ended_;
};

}  // namespace customccl::test
