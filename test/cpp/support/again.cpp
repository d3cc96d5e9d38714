#include "support/again.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

extern char** environ;

namespace customccl::test {

namespace {

constexpr const char* kNested = "CUSTOMCCL_TEST_NESTED";

// A filter that chooses nothing shall not pass.
struct Chosen {
  ~Chosen() {
    if (std::getenv(kNested) != nullptr && testing::UnitTest::GetInstance()->test_to_run_count() == 0) ::_exit(7);
  }
} const chosen;

}  // namespace

int run_again(const std::string& filter, const std::vector<std::string>& settings) {
  if (std::getenv(kNested) != nullptr) return -3;  // a filter that chooses this suite too would never end
  std::vector<std::string> words{"/proc/self/exe", "--gtest_filter=" + filter, "--gtest_brief=1",
                                 "--gtest_also_run_disabled_tests"};
  std::vector<std::string> variables = settings;
  variables.push_back(std::string(kNested) + "=1");
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  pid_t child = 0;
  if (::posix_spawn(&child, words[0].c_str(), nullptr, nullptr, pointers(words).data(), pointers(variables).data()) !=
      0) {
    return -1;
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

}  // namespace customccl::test
