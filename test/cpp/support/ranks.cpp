#include "support/ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

namespace customccl::test {

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kSlowness = 16;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kSlowness = 8;
#else
constexpr int kSlowness = 1;
#endif

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::max(1, std::atoi(text));
}

Watchdog* newest_watchdog = nullptr;

auto threads_here() {
  using Threads = std::filesystem::directory_iterator;
  return std::distance(Threads("/proc/self/task"), Threads());
}

}  // namespace

bool sanitized() { return kSlowness > 1; }

int rounds(int normal) { return std::max(1, normal * number_from("CUSTOMCCL_TEST_ROUNDS", 1) / kSlowness); }
bool chosen(std::size_t number) { return kSlowness == 1 || number % 5 == 0; }

Watchdog::Watchdog(std::string what) : what_(std::move(what)), outer_(std::exchange(newest_watchdog, this)) {
  ::signal(SIGALRM, [](int) {
    std::fprintf(stderr, "HUNG: %s did not end in time\n", newest_watchdog->what_.c_str());
    std::abort();
  });
  const int seconds = number_from("CUSTOMCCL_TEST_HANG_SECONDS", 300) * number_from("CUSTOMCCL_TEST_ROUNDS", 1);
  outer_seconds_ = ::alarm(static_cast<unsigned>(seconds));
}

Watchdog::~Watchdog() {
  newest_watchdog = outer_;
  ::alarm(outer_seconds_);
}

GroupSpec Rank::spec(const std::string& group, Nanos timeout) const {
  GroupSpec spec;
  spec.name = group;
  spec.rank = number_;
  spec.size = size_;
  spec.timeout = timeout;
  for (int rank = 0; rank < size_; ++rank) spec.global_ranks.push_back(rank + kGlobal);
  return spec;
}

Status Rank::try_join(const GroupSpec& spec, std::shared_ptr<Communicator>& out) const {
  const auto bootstrap = meeting_(spec.name);
  return Communicator::create(spec, *bootstrap, out);
}

std::shared_ptr<Communicator> Rank::join(const std::string& group, Nanos timeout) const {
  std::shared_ptr<Communicator> made;
  const Status status = try_join(spec(group, timeout), made);
  EXPECT_TRUE(status.ok()) << status.message();
  return made;
}

void Rank::meet(const std::string& point) const {
  const auto bootstrap = meeting_("meet " + point);
  const Deadline deadline(std::chrono::hours(1));
  std::string ignored;
  bool all = number_ < 0 || bootstrap->put(std::to_string(number_), "here").ok();
  for (int rank = 0; rank < size_; ++rank) all = all && bootstrap->get(std::to_string(rank), deadline, ignored).ok();
  EXPECT_TRUE(all);
}

void run_threads(int size, const std::function<void(const Rank&)>& body) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const Watchdog watchdog(std::string(test->test_suite_name()) + "." + test->name());
  Board board;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      body(Rank(rank, size, [&](const std::string& group) { return std::make_unique<BoardBootstrap>(board, group); }));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Processes::Processes(int size, const std::function<void(const Rank&)>& body)
    : watchdog_(testing::UnitTest::GetInstance()->current_test_info()->name()),
      onlooker_(-1, size, [path = folder_.path()](const std::string& group) {
        return std::make_unique<DirectoryBootstrap>(path, group);
      }) {
  EXPECT_TRUE(kThreadsMayFork || threads_here() == 1) << "fork the ranks before anything that starts threads here";
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also when it is stopped and this process gives up
      const Watchdog limit("a forked rank");
      body(Rank(rank, size, [&](const std::string& group) { return onlooker_.meeting(group); }));
      std::fflush(nullptr);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    pids_.push_back(pid);
  }
}

Processes::~Processes() {
  for (std::size_t rank = 0; rank < pids_.size(); ++rank) {
    if (pids_[rank] == 0) continue;
    ::kill(pids_[rank], SIGKILL);
    wait(static_cast<int>(rank));
  }
}

void Processes::signal(int rank, int number) const { ::kill(pid(rank), number); }

int Processes::wait(int rank) {
  pid_t& pid = pids_[static_cast<std::size_t>(rank)];
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void run_processes(int size, const std::function<void(const Rank&)>& body) {
  Processes ranks(size, body);
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.wait(rank), 0) << "rank " << rank;
}

}  // namespace customccl::test
