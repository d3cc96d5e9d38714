#include "platform/life_word.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>

#include "child.h"
#include "platform/clock.h"
#include "shared_page.h"

namespace customccl {
namespace {

using test::Child;
using test::Mapping;
using test::new_page;

// A guard against hanging, not a claim about speed.
template <class Condition>
bool eventually(Condition condition) {
  const Deadline deadline(std::chrono::seconds(60));
  while (!condition()) {
    if (deadline.passed()) return false;
    ::sched_yield();
  }
  return true;
}

class LifeWordTest : public testing::Test {
 protected:
  LifeWord& word() { return page_.as<LifeWord>(); }
  // In a child, which does not inherit the mapping. Left mapped on purpose: the word must outlive the thread.
  LifeWord& word_in_child() { return (new Mapping(file_))->as<LifeWord>(); }

  MemoryFile file_ = new_page();
  Mapping page_{file_};
};

[[noreturn]] void wait_to_be_killed() {
  for (;;) ::pause();
}

TEST_F(LifeWordTest, IsNeitherAdoptedNorDeadAtFirst) {
  EXPECT_FALSE(word().adopted());
  EXPECT_FALSE(word().dead());
  EXPECT_EQ(word().owner(), 0);
}

TEST_F(LifeWordTest, DiesWithAThreadThatReturns) {
  bool alive_inside = false;
  int owner = 0;
  std::thread([&] {
    alive_inside = word().adopt() && word().adopted() && !word().dead();
    owner = word().owner() - ::gettid();
  }).join();
  EXPECT_TRUE(alive_inside);
  EXPECT_EQ(owner, 0);
  EXPECT_EQ(word().owner(), 0);
  EXPECT_TRUE(word().dead());
  EXPECT_TRUE(word().adopted());
}

TEST_F(LifeWordTest, DiesWithAKilledProcessEvenBeforeItIsReaped) {
  Child child([&] {
    if (!word_in_child().adopt()) return 1;
    wait_to_be_killed();
  });
  ASSERT_TRUE(eventually([&] { return word().adopted(); }));
  EXPECT_FALSE(word().dead());
  child.kill();
  EXPECT_TRUE(eventually([&] { return word().dead(); }));
  EXPECT_EQ(child.wait(), -SIGKILL);
}

TEST_F(LifeWordTest, OfASideThreadDiesWithTheProcess) {
  Child child([&]() -> int {
    LifeWord& mine = word_in_child();
    std::thread([&] {
      if (mine.adopt()) wait_to_be_killed();
    }).detach();
    wait_to_be_killed();
  });
  ASSERT_TRUE(eventually([&] { return word().adopted(); }));
  child.kill();
  EXPECT_TRUE(eventually([&] { return word().dead(); }));
}

TEST_F(LifeWordTest, DiesWithAProcessThatExits) {
  Child child([&] { return word_in_child().adopt() ? 0 : 1; });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(word().dead());
}

TEST_F(LifeWordTest, DiesWithAProcessThatStartsAnotherProgram) {
  int input[2];
  ASSERT_EQ(::pipe(input), 0);
  Child child([&] {
    ::close(input[1]);
    ::dup2(input[0], STDIN_FILENO);
    if (!word_in_child().adopt()) return 1;
    ::execlp("cat", "cat", nullptr);  // lives until its input ends
    return 2;
  });
  ::close(input[0]);
  EXPECT_TRUE(eventually([&] { return word().dead(); }));
  EXPECT_EQ(::kill(child.pid(), 0), 0);
  ::close(input[1]);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(LifeWordTest, StaysAliveWhenAForkedChildOfTheOwnerDies) {
  std::thread([&] {
    ASSERT_TRUE(word().adopt());
    Child child([] { return 0; });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_FALSE(word().dead());
  }).join();
}

TEST_F(LifeWordTest, AThreadHasOneAndAWordHasOneOwner) {
  const MemoryFile other_file = new_page();
  const Mapping other(other_file);
  std::thread([&] {
    ASSERT_TRUE(word().adopt());
    EXPECT_FALSE(word().adopt());
    EXPECT_FALSE(other.as<LifeWord>().adopt());
    std::thread([&] { EXPECT_FALSE(word().adopt()); }).join();
    EXPECT_FALSE(word().dead());
  }).join();
  EXPECT_TRUE(word().dead());
  EXPECT_FALSE(word().adopt());
}

TEST_F(LifeWordTest, AForkedChildOfAnOwnerMayAdoptItsOwn) {
  const MemoryFile other_file = new_page();
  const Mapping other(other_file);
  std::thread([&] {
    ASSERT_TRUE(word().adopt());
    Child child([&] { return (new Mapping(other_file))->as<LifeWord>().adopt() ? 0 : 1; });
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(other.as<LifeWord>().dead());
    EXPECT_FALSE(word().dead());
  }).join();
}

}  // namespace
}  // namespace customccl
