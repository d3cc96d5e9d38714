#include "platform/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace customccl {
namespace {

// The level is read once per process, so each level is looked at in a process of its own.
class LogDeathTest : public testing::Test {
 protected:
  LogDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~LogDeathTest() override { ::unsetenv("CUSTOMCCL_LOG"); }
};

[[noreturn]] void log_all_levels() {
  log(LogLevel::kOff, "zero");
  log(LogLevel::kError, "one");
  log(LogLevel::kWarning, "two");
  log(LogLevel::kInfo, "three");
  log(LogLevel::kDebug, "four");
  ::_exit(0);
}

TEST_F(LogDeathTest, WritesErrorsAndWarningsByDefault) {
  ::unsetenv("CUSTOMCCL_LOG");
  EXPECT_EXIT(log_all_levels(), testing::ExitedWithCode(0),
              "^\\[customccl error pid [0-9]+\\] one\n\\[customccl warning pid [0-9]+\\] two\n$");
}

TEST_F(LogDeathTest, OffWritesNothing) {
  ::setenv("CUSTOMCCL_LOG", "off", 1);
  EXPECT_EXIT(log_all_levels(), testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDeathTest, DebugWritesEverythingButOff) {
  ::setenv("CUSTOMCCL_LOG", "debug", 1);
  EXPECT_EXIT(log_all_levels(), testing::ExitedWithCode(0), "^[^\n]* one\n[^\n]* two\n[^\n]* three\n[^\n]* four\n$");
}

TEST_F(LogDeathTest, KeepsATextWithLineBreaksOnOneLine) {
  EXPECT_EXIT(
      {
        log(LogLevel::kError, "first\nsecond");
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "^[^\n]*first second\n$");
}

TEST(Log, KnowsItsLevelsByName) {
  EXPECT_EQ(log_level_named("off"), LogLevel::kOff);
  EXPECT_EQ(log_level_named("debug"), LogLevel::kDebug);
  EXPECT_EQ(log_level_named("shout"), LogLevel::kWarning);
}

}  // namespace
}  // namespace customccl
