#include "platform/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "child.h"
#include "platform/inheritance.h"
#include "shared_page.h"

namespace customccl {
namespace {

using test::Child;
using test::kPage;
using test::Mapping;
using test::new_page;

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

bool all_are(const std::byte* data, std::size_t bytes, unsigned char value) {
  return std::all_of(data, data + bytes, [&](std::byte b) { return b == std::byte{value}; });
}

TEST(MemoryFile, IsZeroAndSharedBetweenMappings) {
  const MemoryFile file = new_page();
  EXPECT_EQ(file.mechanism, "memfd");
  const Mapping here(file);
  const Mapping there(file);
  EXPECT_TRUE(all_are(here.base(), kPage, 0));
  std::memset(here.base(), 7, kPage);
  EXPECT_TRUE(all_are(there.base(), kPage, 7));
}

TEST(MemoryFile, CannotBeResizedByAnyone) {
  const MemoryFile file = new_page();
  EXPECT_EQ(::ftruncate(file.fd.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(file.fd.get(), 2 * kPage), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fcntl(file.fd.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(MemoryFile, ClosesOnExec) { EXPECT_EQ(::fcntl(new_page().fd.get(), F_GETFD), FD_CLOEXEC); }

TEST(MemoryFile, IsSparseUntilPagesAreReserved) {
  constexpr std::size_t kBytes = std::size_t{8} << 30;
  MemoryFile file;
  ASSERT_TRUE(create_memory_file("test", kBytes, file).ok());
  struct stat facts{};
  ASSERT_EQ(::fstat(file.fd.get(), &facts), 0);
  EXPECT_EQ(facts.st_size, static_cast<off_t>(kBytes));
  EXPECT_EQ(facts.st_blocks, 0);
  ASSERT_TRUE(reserve_pages(file, std::size_t{1} << 30, 5 << 20).ok());
  ASSERT_EQ(::fstat(file.fd.get(), &facts), 0);
  EXPECT_GE(facts.st_blocks * 512, 5 << 20);
}

TEST(MemoryFile, ReleasedPagesReadAsZeroAndAreGivenBack) {
  constexpr std::size_t kBytes = 4 * kPage;
  MemoryFile file;
  std::byte* base = nullptr;
  ASSERT_TRUE(create_memory_file("test", kBytes, file).ok());
  ASSERT_TRUE(map_memory_file(file.fd, kBytes, base).ok());
  ASSERT_TRUE(reserve_pages(file, 0, kBytes).ok());
  std::memset(base, 9, kBytes);
  release_pages(file, kPage, 2 * kPage);
  EXPECT_TRUE(all_are(base, kPage, 9));
  EXPECT_TRUE(all_are(base + 3 * kPage, kPage, 9));
  struct stat facts{};
  ASSERT_EQ(::fstat(file.fd.get(), &facts), 0);
  EXPECT_EQ(facts.st_blocks * 512, static_cast<blkcnt_t>(2 * kPage));
  EXPECT_TRUE(all_are(base + kPage, 2 * kPage, 0));
  unmap_memory(base, kBytes);
}

TEST(MemoryFile, ReservingTwiceKeepsTheContent) {
  const MemoryFile file = new_page();
  const Mapping page(file);
  std::memset(page.base(), 5, kPage);
  ASSERT_TRUE(reserve_pages(file, 0, kPage).ok());
  EXPECT_TRUE(all_are(page.base(), kPage, 5));
}

TEST(MemoryFile, ReservingBeyondTheEndIsAnErrorWithAdvice) {
  const Status status = reserve_pages(new_page(), 0, 2 * kPage);
  EXPECT_EQ(status.code, Code::kSystem);
  EXPECT_NE(status.message().find("reserve 8K bytes"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("errno"), std::string::npos) << status.message();
}

TEST(MemoryFile, AnotherFileThatGotTheNumberIsLeftAlone) {
  const MemoryFile file = new_page();
  const MemoryFile other = new_page();
  const Mapping page(other);
  std::memset(page.base(), 5, kPage);
  ASSERT_EQ(::dup2(other.fd.get(), file.fd.get()), file.fd.get());
  const Status status = reserve_pages(file, 0, kPage);
  EXPECT_EQ(status.code, Code::kSystem);
  EXPECT_NE(status.message().find("was closed by the program"), std::string::npos) << status.message();
  release_pages(file, 0, kPage);
  EXPECT_TRUE(all_are(page.base(), kPage, 5));
  EXPECT_EQ(share_pages(file, 0, page.base(), kPage).code, Code::kSystem);
}

TEST(MemoryFile, MappingMoreThanThereIsIsRefused) {
  std::byte* base = nullptr;
  const Status status = map_memory_file(new_page().fd, 2 * kPage, base);
  EXPECT_EQ(status.code, Code::kInvalidArgument);
  EXPECT_NE(status.message().find("8192"), std::string::npos) << status.message();
  EXPECT_EQ(base, nullptr);
}

TEST(MemoryFile, MappingMoreThanTheAddressSpaceNamesTheSetting) {
  constexpr std::size_t kBytes = std::size_t{1} << 50;
  MemoryFile file;
  std::byte* base = nullptr;
  ASSERT_TRUE(create_memory_file("test", kBytes, file).ok());
  const Status status = map_memory_file(file.fd, kBytes, base);
  EXPECT_EQ(status.code, Code::kSystem);
  EXPECT_NE(status.message().find("CUSTOMCCL_ARENA_BYTES"), std::string::npos) << status.message();
}

TEST(MemoryFile, MappingIsKeptOutOfForkedChildren) {
  const MemoryFile file = new_page();
  const Mapping page(file);
  Child child([&] {
    unsigned char resident = 0;
    return ::mincore(page.base(), kPage, &resident) == -1 && errno == ENOMEM ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

// How much of the mapping that begins there is mapped by huge pages, as the kernel tells.
std::size_t mapped_huge(const std::byte* base) {
  std::ifstream maps("/proc/self/smaps");
  std::ostringstream begin;
  begin << std::hex << reinterpret_cast<std::uintptr_t>(base) << '-';
  std::string line;
  while (std::getline(maps, line) && line.rfind(begin.str(), 0) != 0) {
  }
  while (std::getline(maps, line)) {
    if (line.rfind("ShmemPmdMapped:", 0) == 0) return std::stoul(line.substr(15)) << 10;
  }
  return 0;
}

TEST(MemoryFile, PagesAreGatheredIntoHugeOnesWithTheirContents) {
  constexpr std::size_t kBytes = 4 * kHugePage;
  MemoryFile file;
  std::byte* base = nullptr;
  ASSERT_TRUE(create_memory_file("test", kBytes, file).ok());
  ASSERT_TRUE(map_memory_file(file.fd, kBytes, base).ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % kHugePage, 0u);
  const std::size_t used = 2 * kHugePage + 5000;
  ASSERT_TRUE(reserve_pages(file, 0, used).ok());
  for (std::size_t i = 0; i < used; ++i) base[i] = static_cast<std::byte>(i % 251);
  EXPECT_EQ(mapped_huge(base), 0u);
  gather_pages(base, used);
  for (std::size_t i = 0; i < used; ++i) ASSERT_EQ(base[i], static_cast<std::byte>(i % 251)) << i;
  const int collapse = ::madvise(base, kHugePage, MADV_COLLAPSE);
  if (collapse == 0) {
    EXPECT_EQ(mapped_huge(base), 2 * kHugePage);
  } else {
    EXPECT_TRUE(errno == EINVAL || errno == ENOMEM || errno == EAGAIN || errno == EBUSY)
        << errno;  // no such kernel; no room
  }
  struct stat facts{};
  ASSERT_EQ(::fstat(file.fd.get(), &facts), 0);
  EXPECT_EQ(facts.st_blocks * 512, static_cast<off_t>(2 * kHugePage + 2 * kPage));
  release_pages(file, 0, 3 * kHugePage);
  ASSERT_EQ(::fstat(file.fd.get(), &facts), 0);
  EXPECT_EQ(facts.st_blocks, 0);
  unmap_memory(base, kBytes);
}

// What is lent stays so in the process: it is a child.
TEST(MemoryFile, ForkedChildrenHaveWhatIsLentToThemForThemselves) {
  Child parent([] {
    const MemoryFile file = new_page();
    const Mapping page(file);
    std::memset(page.base(), 7, kPage);
    lend_to_children(file, page.base(), kPage);
    Child child([&] {
      if (!all_are(page.base(), kPage, 7)) return 1;
      std::memset(page.base(), 8, kPage);
      Child grandchild([&] { return all_are(page.base(), kPage, 8) ? 0 : 2; });
      return grandchild.wait();
    });
    const int ended = child.wait();
    return all_are(page.base(), kPage, 7) ? ended : 3;
  });
  EXPECT_EQ(parent.wait(), 0);
}

TEST(MemoryFile, ForkedChildrenInheritWhatWasMadePrivate) {
  Child parent([] {
    const MemoryFile file = new_page();
    const Mapping page(file);
    lend_to_children(file, page.base(), kPage);
    if (!make_private(page.base(), kPage).ok()) return 4;
    std::memset(page.base(), 9, kPage);
    Child child([&] { return all_are(page.base(), kPage, 9) ? 0 : 1; });
    return child.wait();
  });
  EXPECT_EQ(parent.wait(), 0);
}

TEST(MemoryFile, ForkedChildrenHaveWhatLiesAroundWhatWasMadePrivate) {
  Child parent([] {
    constexpr std::size_t kPages = 9;
    MemoryFile file;
    std::byte* base = nullptr;
    if (!create_memory_file("test", kPages * kPage, file).ok()) return 10;
    if (!map_memory_file(file.fd, kPages * kPage, base).ok()) return 11;
    const auto page = [&](std::size_t index) { return base + index * kPage; };
    for (std::size_t i = 0; i < kPages; ++i) std::memset(page(i), static_cast<int>(i), kPage);
    lend_to_children(file, base, kPages * kPage);
    // Private: 1, 4 and 5, 8; for a while 6.
    if (!make_private(page(4), 2 * kPage).ok() || !make_private(page(1), kPage).ok()) return 12;
    if (!make_private(page(6), kPage).ok() || !make_private(page(8), kPage).ok()) return 13;
    if (!share_pages(file, 6 * kPage, page(6), kPage).ok()) return 14;
    Child child([&] {
      for (std::size_t i = 0; i < kPages; ++i) {
        if (!all_are(page(i), kPage, static_cast<unsigned char>(i))) return static_cast<int>(1 + i);
      }
      std::memset(base, 77, kPages * kPage);  // its own
      return 0;
    });
    const int ended = child.wait();
    return all_are(page(2), kPage, 2) && all_are(page(4), kPage, 4) ? ended : 20;
  });
  EXPECT_EQ(parent.wait(), 0);
}

// A fork of another thread may come between the two halves of make_private(): the hole is told, and the pages are still shared.
TEST(MemoryFile, ForkedChildrenHaveWhatIsAboutToBeMadePrivate) {
  Child parent([] {
    const MemoryFile file = new_page();
    const Mapping page(file);
    std::memset(page.base(), 7, kPage);
    lend_to_children(file, page.base(), kPage);
    add_hole(page.base(), kPage);
    Child child([&] { return all_are(page.base(), kPage, 7) ? 0 : 1; });
    return child.wait();
  });
  EXPECT_EQ(parent.wait(), 0);
}

TEST(MemoryFile, AFileSizeLimitIsAnErrorAndNotASignal) {
  Child child([] {
    const rlimit limit{kPage, kPage};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    MemoryFile file;
    const Status status = create_memory_file("test", 2 * kPage, file);
    return status.code == Code::kSystem && status.message().find("ulimit -f") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(MemoryFile, TakesALabelOfAnyLength) {
  MemoryFile file;
  EXPECT_TRUE(create_memory_file(std::string(1000, 'x'), kPage, file).ok());
}

TEST(MemoryFileDeathTest, FallsBackWhenMemfdIsDenied) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("CUSTOMCCL_DISABLE", "memfd", 1);
  EXPECT_EXIT(
      {
        const MemoryFile file = new_page();
        const Mapping page(file);
        std::memset(page.base(), 3, kPage);
        struct stat facts{};
        const bool nameless = ::fstat(file.fd.get(), &facts) == 0 && facts.st_nlink == 0;
        const bool said = file.mechanism.find("memfd_create: Operation not permitted") != std::string::npos;
        ::_exit(nameless && said ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  ::unsetenv("CUSTOMCCL_DISABLE");
}

}  // namespace
}  // namespace customccl
