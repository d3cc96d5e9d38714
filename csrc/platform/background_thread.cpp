#include "platform/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <string>
#include <utility>

#include "platform/errno_text.h"

namespace customccl {

namespace {

struct Start {
  const char* name;
  std::function<void()> body;
};

void* enter(void* with) {
  const std::unique_ptr<Start> start(static_cast<Start*>(with));
  pthread_setname_np(pthread_self(), start->name);
  start->body();
  return nullptr;
}

}  // namespace

// Not std::thread, which throws where no thread can be had: callers are in the middle of operations, or of a call from C.
Status start_background_thread(const char* name, std::function<void()> body) {
  auto start = std::make_unique<Start>(Start{name, std::move(body)});
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);  // a new thread inherits the mask
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, enter, start.get());
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (error != 0) {
    return system_error("the system did not start the thread " + std::string(name), error,
                        "Raise the limit of threads (ulimit -u, or pids.max of the container), or start fewer.");
  }
  start.release();  // NOLINT(bugprone-unused-return-value): the thread has it
  pthread_detach(thread);
  return {};
}

}  // namespace customccl
