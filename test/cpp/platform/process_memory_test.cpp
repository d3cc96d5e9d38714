#include "platform/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "child.h"
#include "shared_page.h"

namespace customccl {
namespace {

using test::Child;
using test::kPage;

// Two pages of which the second cannot be read.
class HalfReadable {
 public:
  HalfReadable() : base_(::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(base_, MAP_FAILED);
    EXPECT_EQ(::mprotect(static_cast<char*>(base_) + kPage, kPage, PROT_NONE), 0);
  }
  ~HalfReadable() { ::munmap(base_, 2 * kPage); }
  HalfReadable(const HalfReadable&) = delete;
  HalfReadable& operator=(const HalfReadable&) = delete;
  char* data() const { return static_cast<char*>(base_); }
  std::uint64_t end() const { return reinterpret_cast<std::uintptr_t>(base_) + kPage; }

 private:
  void* base_;
};

TEST(ProcessMemory, IsThatOfTheOtherProcess) {
  const HalfReadable memory;
  std::strcpy(memory.data(), "parent");
  Child child([&] {
    std::strcpy(memory.data(), "child");  // a copy of the page
    for (;;) ::pause();
    return 0;
  });
  std::array<std::byte, 8> got{};
  const std::uint64_t address = memory.end() - kPage;
  do {
    ASSERT_EQ(read_process_memory(child.pid(), got.data(), address, got.size()), 0);
  } while (std::strcmp(reinterpret_cast<char*>(got.data()), "parent") == 0);  // until the child has written
  EXPECT_STREQ(reinterpret_cast<char*>(got.data()), "child");
}

TEST(ProcessMemory, SaysWhenItIsNotAllThere) {
  const HalfReadable memory;
  std::memset(memory.data(), 7, kPage);
  std::array<std::byte, 64> got{};
  EXPECT_EQ(read_process_memory(::getpid(), got.data(), memory.end() - 64, 64), 0);
  EXPECT_EQ(got[63], std::byte{7});
  EXPECT_EQ(read_process_memory(::getpid(), got.data(), memory.end() - 63, 64), EFAULT);
  EXPECT_EQ(read_process_memory(::getpid(), got.data(), memory.end(), 1), EFAULT);
  EXPECT_EQ(read_process_memory(::getpid(), got.data(), memory.end(), 0), 0);
}

TEST(ProcessMemory, OfAProcessThatIsGoneIsNone) {
  Child child([] { return 0; });
  EXPECT_EQ(child.wait(), 0);
  std::byte got{};
  EXPECT_EQ(read_process_memory(child.pid(), &got, reinterpret_cast<std::uintptr_t>(&got), 1), ESRCH);
  EXPECT_EQ(read_process_memory(0, &got, reinterpret_cast<std::uintptr_t>(&got), 1), ESRCH);
}

}  // namespace
}  // namespace customccl
