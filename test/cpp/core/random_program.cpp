#include "core/random_program.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/letter.h"
#include "support/trial.h"

namespace customccl::test {

namespace {

// A posted call with its tensors.
struct Pending {
  std::unique_ptr<Checked> part;
  std::shared_ptr<Task> task;
  std::string what;
};

// One message of the program, the same on every rank.
struct Message {
  int from;
  int to;
  std::int64_t tag;
  std::size_t count;
  std::uint64_t seed;
};

class Program {
 public:
  Program(const Rank& rank, Communicator& group, std::uint64_t seed)
      : rank_(rank), group_(group), shared_(seed), own_(seed * 1000 + static_cast<std::uint64_t>(rank.number()) + 1) {}

  void step() {
    pause();
    if (shared_.one_in(3)) return exchange();
    const Trial trial = random_trial(shared_, rank_.size(), shared_.one_in(30) ? 3 << 20 : 20 << 10);
    const bool at_once = shared_.one_in(2);  // ranks may differ here too, but this finds more
    Pending pending{std::make_unique<Part>(trial, rank_.number()), nullptr, trial.describe()};
    if (at_once || own_.one_in(4)) {
      const Status status = group_.run(pending.part->call());
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(pending.part->verify(), "") << pending.what;
      return;
    }
    post(std::move(pending));
    while (pending_.size() > own_.below(std::uint64_t{6})) finish_one();
  }

  void finish() {
    while (!pending_.empty()) finish_one();
  }

 private:
  void pause() {
    if (own_.one_in(8)) std::this_thread::yield();
    if (!own_.one_in(8)) return;
    for (auto left = own_.below(std::uint64_t{20'000}); left > 0; --left) asm volatile("" : : : "memory");
  }

  void post(Pending pending) {
    if (own_.one_in(2)) {
      Ended ended;
      pending.task = begin(group_, *pending.part, ended);
      if (pending.task == nullptr) return check_ended(pending, ended);
    } else {
      pending.task = test::post(group_, *pending.part);
    }
    pending_.push_back(std::move(pending));
  }

  // What was over at once.
  static void check_ended(const Pending& pending, const Ended& ended) {
    const Call& call = pending.part->call();
    EXPECT_GT(ended.sequence, 0u);
    EXPECT_EQ(ended.source, call.op == Op::kRecv ? call.peer : -1);
    ASSERT_EQ(pending.part->verify(), "") << pending.what;
  }

  // Any of those in flight, waited for with or without a limit, or polled.
  void finish_one() {
    const auto chosen = pending_.begin() + static_cast<std::ptrdiff_t>(own_.below(pending_.size()));
    const Pending pending = std::move(*chosen);
    pending_.erase(chosen);
    if (own_.one_in(3)) {
      while (!group_.wait(*pending.task, std::chrono::microseconds(200))) std::this_thread::yield();
    } else if (own_.one_in(3)) {
      while (!group_.poll(*pending.task)) std::this_thread::yield();
    } else {
      group_.wait(*pending.task, Nanos{0});
    }
    ASSERT_TRUE(pending.task->status().ok()) << pending.task->status().message();
    ASSERT_EQ(pending.part->verify(), "") << pending.what;
  }

  // Some messages between random pairs, every rank posting its ends in an order of its own.
  void exchange();
  void post_ends(const std::vector<Message>& messages);

  const Rank& rank_;
  Communicator& group_;
  Dice shared_;
  Dice own_;
  std::vector<Pending> pending_;
};

void Program::exchange() {
  std::vector<Message> messages;
  const auto count = 1 + shared_.below(std::uint64_t{6});
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t most = shared_.one_in(10) ? 400'000 : 3000;
    messages.push_back({shared_.below(rank_.size()), shared_.below(rank_.size()), static_cast<std::int64_t>(i),
                        shared_.below(most), shared_.below(std::uint64_t{1000})});
  }
  post_ends(messages);
  finish();
}

void Program::post_ends(const std::vector<Message>& messages) {
  struct End {
    const Message* message;
    bool sends;
  };
  std::vector<End> ends;
  for (const Message& message : messages) {
    if (message.from == rank_.number()) ends.push_back({&message, true});
    if (message.to == rank_.number()) ends.push_back({&message, false});
  }
  for (std::size_t left = ends.size(); left > 1; --left) std::swap(ends[left - 1], ends[own_.below(left)]);
  for (const End& end : ends) {
    const Message& message = *end.message;
    auto part = std::make_unique<Letter>(end.sends ? Op::kSend : Op::kRecv, DType::kInt32, message.count,
                                         static_cast<Shape>(own_.below(kShapes)), message.seed,
                                         end.sends ? message.to : message.from, message.tag);
    post({std::move(part), nullptr, "message " + std::to_string(message.tag)});
  }
}

}  // namespace

void random_program(const Rank& rank, Communicator& group, std::uint64_t seed, int steps) {
  Program program(rank, group, seed);
  for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) program.step();
  program.finish();
}

}  // namespace customccl::test
