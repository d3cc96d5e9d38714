#include "platform/background_thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <future>
#include <string>

#include "support/no_threads.h"

namespace customccl::test {
namespace {

// The signals that this thread blocks.
std::string mask() {
  sigset_t set;
  sigemptyset(&set);
  pthread_sigmask(SIG_SETMASK, nullptr, &set);
  std::string blocked;
  for (int number = 1; number < NSIG; ++number) blocked += sigismember(&set, number) == 1 ? '1' : '0';
  return blocked;
}

TEST(BackgroundThread, HasItsNameAndTakesNoSignals) {
  const std::string before = mask();
  std::promise<std::string> name, blocked;
  const Status status = start_background_thread("customccl-test", [&] {
    char text[16] = "";
    pthread_getname_np(pthread_self(), text, sizeof(text));
    blocked.set_value(mask());
    name.set_value(text);
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(name.get_future().get(), "customccl-test");
  EXPECT_EQ(blocked.get_future().get()[SIGTERM - 1], '1');
  EXPECT_EQ(mask(), before);
}

TEST(BackgroundThread, ThatTheSystemRefusesIsAnErrorAndLeavesTheSignalsAsTheyWere) {
  const std::string before = mask();
  const auto held = std::make_shared<int>(1);
  {
    const NoThreads none;
    const Status status = start_background_thread("customccl-test", [held] { ADD_FAILURE(); });
    EXPECT_EQ(status.code, Code::kSystem);
    EXPECT_NE(status.message().find("customccl-test"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("ulimit -u"), std::string::npos) << status.message();
  }
  EXPECT_EQ(mask(), before);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace customccl::test
