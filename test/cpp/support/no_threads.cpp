#include "support/no_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> existing{0};
std::atomic<int> refusals{0};

}  // namespace

// Comes before the C library's in every program that uses NoThreads.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*body)(void*), void* with) noexcept {
  if (existing.load() != 0) {
    ++refusals;
    return EAGAIN;
  }
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, how, body, with);
}

namespace customccl::test {

NoThreads::NoThreads() { ++existing; }
NoThreads::~NoThreads() { --existing; }
int NoThreads::refused() { return refusals.load(); }

}  // namespace customccl::test
