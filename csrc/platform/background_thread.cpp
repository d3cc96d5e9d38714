#include "platform/background_thread.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace customccl {

void start_background_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);  // a new thread inherits the mask
  std::thread([name, run = std::move(body)] {
    pthread_setname_np(pthread_self(), name);
    run();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

}  // namespace customccl
