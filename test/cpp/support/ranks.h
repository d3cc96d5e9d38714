#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "support/bootstraps.h"

// Ranks for tests, as threads of this process or as forked processes, under a hard limit of time: a hang kills the test
// with a message and never waits for a person.
//
//   CUSTOMCCL_TEST_ROUNDS        multiplies how often the random suites repeat (default 1; 100 is a good night)
//   CUSTOMCCL_TEST_HANG_SECONDS  the hard limit of one call of run_threads or run_processes (default 300)

namespace customccl::test {

// `rounds` as a normal run does it, scaled by CUSTOMCCL_TEST_ROUNDS. Sanitizers make everything slow: fewer there, never none.
int rounds(int normal);
bool sanitized();
// Whether the case of this number, of many similar ones, is run: all of them, but under sanitizers every fifth.
bool chosen(std::size_t number);

// Kills the process when it outlives the limit. By an alarm, which a forked child does not inherit; a thread would be caught by
// a fork in the middle of anything, say with the lock of the heap. Made and ended by the main thread; the newest counts.
class Watchdog {
 public:
  explicit Watchdog(std::string what);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::string what_;
  Watchdog* outer_;
  unsigned outer_seconds_ = 0;
};

// One rank inside a test body.
class Rank {
 public:
  using Meeting = std::function<std::unique_ptr<Bootstrap>(const std::string& group)>;
  Rank(int number, int size, Meeting meeting) : number_(number), size_(size), meeting_(std::move(meeting)) {}

  int number() const { return number_; }
  int size() const { return size_; }

  // A group of all ranks. Global ranks are the ranks plus kGlobal, so that messages cannot confuse the two.
  std::shared_ptr<Communicator> join(const std::string& group, Nanos timeout = std::chrono::minutes(5)) const;
  Status try_join(const GroupSpec& spec, std::shared_ptr<Communicator>& out) const;
  GroupSpec spec(const std::string& group, Nanos timeout) const;
  std::unique_ptr<Bootstrap> meeting(const std::string& group) const { return meeting_(group); }
  // Waits until every rank came here, without using what is tested.
  void meet(const std::string& point) const;

  static constexpr int kGlobal = 40;

 private:
  int number_;
  int size_;
  Meeting meeting_;
};

void run_threads(int size, const std::function<void(const Rank&)>& body);

// Whether a process with several threads may fork. The address sanitizer's heap does not prepare for that (gcc 12's; LLVM's does
// since 18): a lock that another thread holds at the moment of the fork stays locked in the child, which hangs. The C library's does.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kThreadsMayFork = false;
#else
inline constexpr bool kThreadsMayFork = true;
#endif

// Forked ranks. A rank that failed an expectation ends with code 1.
class Processes {
 public:
  Processes(int size, const std::function<void(const Rank&)>& body);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  pid_t pid(int rank) const { return pids_[static_cast<std::size_t>(rank)]; }
  void signal(int rank, int number) const;
  // The exit code, or minus the signal that ended the rank.
  int wait(int rank);
  // This process as an onlooker of the meeting place, e.g. to learn when a rank has come to some point.
  const Rank& onlooker() const { return onlooker_; }

 private:
  Watchdog watchdog_;
  TemporaryDirectory folder_;
  Rank onlooker_;
  std::vector<pid_t> pids_;
};

// All ranks must end with code 0.
void run_processes(int size, const std::function<void(const Rank&)>& body);

}  // namespace customccl::test
