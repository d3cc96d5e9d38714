#include "platform/settings.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "platform/settings_reader.h"

namespace customccl {
namespace {

using Variables = std::map<std::string, std::string>;
using std::chrono::microseconds;

SettingsReading read(const Variables& variables) {
  return read_settings([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Settings, HaveTheirDefaultsInAnEmptyEnvironment) {
  const SettingsReading reading = read({});
  const Settings& s = reading.settings;
  EXPECT_TRUE(reading.complaints.empty());
  EXPECT_EQ(s.arena_bytes, std::size_t{16} << 30);
  EXPECT_EQ(s.slot_bytes, std::size_t{512} << 10);
  EXPECT_EQ(s.one_shot_bytes, std::size_t{16} << 10);
  EXPECT_EQ(s.staging_budget, std::size_t{1} << 30);
  EXPECT_EQ(s.mailbox_bytes, std::size_t{2} << 20);
  EXPECT_EQ(s.spin, microseconds(50));
  EXPECT_EQ(s.yield, microseconds(1000));
  EXPECT_TRUE(s.progress_thread);
  EXPECT_EQ(s.store_policy, "auto");
  EXPECT_EQ(s.read_peers, std::nullopt);
  EXPECT_EQ(s.isa, "auto");
  EXPECT_EQ(s.log, "warning");
  EXPECT_EQ(s.disable, "");
}

TEST(Settings, EachTakesAValueOfItsType) {
  const SettingsReading reading = read({{"CUSTOMCCL_ARENA_BYTES", "64M"},
                                        {"CUSTOMCCL_SLOT_BYTES", "8192"},
                                        {"CUSTOMCCL_ONE_SHOT_BYTES", "0"},
                                        {"CUSTOMCCL_STAGING_BUDGET", "2g"},
                                        {"CUSTOMCCL_MAILBOX_BYTES", "16K"},
                                        {"CUSTOMCCL_SPIN_US", "0"},
                                        {"CUSTOMCCL_YIELD_US", "7"},
                                        {"CUSTOMCCL_PROGRESS_THREAD", "0"},
                                        {"CUSTOMCCL_STORE_POLICY", "streaming"},
                                        {"CUSTOMCCL_READ_PEERS", "64K"},
                                        {"CUSTOMCCL_ISA", "avx2"},
                                        {"CUSTOMCCL_LOG", "debug"},
                                        {"CUSTOMCCL_DISABLE", "membarrier,memfd"}});
  const Settings& s = reading.settings;
  EXPECT_TRUE(reading.complaints.empty());
  EXPECT_EQ(s.arena_bytes, std::size_t{64} << 20);
  EXPECT_EQ(s.slot_bytes, 8192U);
  EXPECT_EQ(s.one_shot_bytes, 0U);
  EXPECT_EQ(s.staging_budget, std::size_t{2} << 30);
  EXPECT_EQ(s.mailbox_bytes, 16384U);
  EXPECT_EQ(s.spin, Nanos::zero());
  EXPECT_EQ(s.yield, microseconds(7));
  EXPECT_FALSE(s.progress_thread);
  EXPECT_EQ(s.store_policy, "streaming");
  EXPECT_EQ(s.read_peers, std::size_t{64} << 10);
  EXPECT_EQ(s.isa, "avx2");
  EXPECT_EQ(s.log, "debug");
  EXPECT_EQ(s.disable, "membarrier,memfd");
}

TEST(Settings, AMisspeltOneIsNamed) {
  const std::array<const char*, 7> environment{"HOME=/root",
                                               "CUSTOMCCL_SPIN=7",
                                               "CUSTOMCCL_SPIN_US=7",
                                               "CUSTOMCCL_TEST_ROUNDS=9",
                                               "CUSTOMCCL_LOG_LEVEL=",
                                               "MY_CUSTOMCCL_SPIN=1",
                                               nullptr};
  const std::vector<std::string> complaints = complaints_about_strangers(environment.data());
  ASSERT_EQ(complaints.size(), 2U);
  EXPECT_EQ(complaints[0].find("CUSTOMCCL_SPIN is set but is no setting"), 0U) << complaints[0];
  EXPECT_EQ(complaints[1].find("CUSTOMCCL_LOG_LEVEL is set"), 0U) << complaints[1];
  EXPECT_TRUE(complaints_about_strangers(nullptr).empty());  // after clearenv()
}

TEST(Settings, PeersAreReadNeverWhereThatIsOff) {
  EXPECT_EQ(read({{"CUSTOMCCL_READ_PEERS", "off"}}).settings.read_peers, std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(read({{"CUSTOMCCL_READ_PEERS", "auto"}}).settings.read_peers, std::nullopt);
}

class BadSetting : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(BadSetting, KeepsItsDefaultAndSaysWhatItWouldUnderstand) {
  const auto [variable, value] = GetParam();
  const SettingsReading reading = read({{variable, value}});
  ASSERT_EQ(reading.complaints.size(), 1U);
  EXPECT_NE(reading.complaints[0].find(std::string(variable) + "=\"" + value + "\""), std::string::npos);
  EXPECT_NE(reading.complaints[0].find("expected"), std::string::npos);
  for (const SettingInfo& row : reading.table) EXPECT_EQ(row.value, row.default_value);
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadSetting,
    testing::Values(std::pair("CUSTOMCCL_ARENA_BYTES", "lots"), std::pair("CUSTOMCCL_ARENA_BYTES", "1K"),
                    std::pair("CUSTOMCCL_SLOT_BYTES", "0"), std::pair("CUSTOMCCL_SLOT_BYTES", "-1"),
                    std::pair("CUSTOMCCL_SLOT_BYTES", ""), std::pair("CUSTOMCCL_ONE_SHOT_BYTES", "64KB"),
                    std::pair("CUSTOMCCL_STAGING_BUDGET", "1e9"), std::pair("CUSTOMCCL_MAILBOX_BYTES", "900T"),
                    std::pair("CUSTOMCCL_SPIN_US", "50us"), std::pair("CUSTOMCCL_SPIN_US", "-5"),
                    std::pair("CUSTOMCCL_YIELD_US", "99999999999"), std::pair("CUSTOMCCL_PROGRESS_THREAD", "yes"),
                    std::pair("CUSTOMCCL_STORE_POLICY", "Plain"), std::pair("CUSTOMCCL_STORE_POLICY", "auto,plain"),
                    std::pair("CUSTOMCCL_READ_PEERS", "on"), std::pair("CUSTOMCCL_READ_PEERS", "0"),
                    std::pair("CUSTOMCCL_ISA", "sse"), std::pair("CUSTOMCCL_LOG", "loud"),
                    std::pair("CUSTOMCCL_DISABLE", "mem"), std::pair("CUSTOMCCL_DISABLE", "memfd;membarrier")));

TEST(Settings, TableHasOneDocumentedRowPerVariable) {
  const SettingsReading reading = read({{"CUSTOMCCL_SPIN_US", "9"}});
  std::set<std::string_view> names;
  for (const SettingInfo& row : reading.table) {
    EXPECT_TRUE(row.variable.starts_with("CUSTOMCCL_"));
    EXPECT_FALSE(row.meaning.empty()) << row.variable;
    EXPECT_EQ(row.value, row.variable == "CUSTOMCCL_SPIN_US" ? "9" : row.default_value);
    names.insert(row.variable);
  }
  EXPECT_EQ(names.size(), 13U);
  EXPECT_EQ(describe_settings().size(), 13U);
}

TEST(Settings, ListsHoldWholeWordsOnly) {
  EXPECT_TRUE(list_contains("memfd,membarrier", "memfd"));
  EXPECT_TRUE(list_contains("memfd,membarrier", "membarrier"));
  EXPECT_FALSE(list_contains("memfd,membarrier", "mem"));
  EXPECT_FALSE(list_contains("memfd,membarrier", "memfd,membarrier"));
  EXPECT_FALSE(list_contains("", ""));
  EXPECT_FALSE(list_contains("a,,b", ""));
}

// The death tests run in a process of their own, where settings() has not read the environment yet.
TEST(SettingsDeathTest, BadValuesAreReportedOnceOnStderr) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("CUSTOMCCL_SLOT_BYTES", "big", 1);
  EXPECT_EXIT(
      {
        const bool kept = settings().slot_bytes == std::size_t{512} << 10;
        ::_exit(kept && settings().log == "warning" ? 0 : 1);
      },
      testing::ExitedWithCode(0), "customccl warning pid [0-9]+\\] CUSTOMCCL_SLOT_BYTES=\"big\" is not understood");
  ::setenv("CUSTOMCCL_LOG", "off", 1);
  EXPECT_EXIT(::_exit(settings().slot_bytes == std::size_t{512} << 10 ? 0 : 1), testing::ExitedWithCode(0), "^$");
  ::unsetenv("CUSTOMCCL_LOG");
  ::unsetenv("CUSTOMCCL_SLOT_BYTES");
}

}  // namespace
}  // namespace customccl
