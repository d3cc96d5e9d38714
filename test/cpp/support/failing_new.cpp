#include "support/failing_new.h"

#include <cstdlib>
#include <limits>
#include <new>

namespace customccl::test {

namespace {

constexpr int kNever = std::numeric_limits<int>::max();
thread_local int first_to_fail = kNever;
thread_local int asked = 0;

}  // namespace

void fail_allocations_from(int n) {
  asked = 0;
  first_to_fail = n;
}

int disarm() {
  first_to_fail = kNever;
  return asked;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
bool allocations_can_fail() { return false; }
}  // namespace customccl::test
#else
bool allocations_can_fail() { return true; }

}  // namespace customccl::test

void* operator new(std::size_t bytes) {
  using namespace customccl::test;
  if (first_to_fail != kNever && ++asked >= first_to_fail) throw std::bad_alloc();
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](std::size_t bytes) { return ::operator new(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
#endif
