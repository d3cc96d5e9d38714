#include "platform/inheritance.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "platform/errno_text.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17
#endif

namespace customccl {
namespace {

// A part that was made private, which a child inherits: what is lent has a hole there. Free while it has no bytes.
struct Hole {
  std::atomic<std::byte*> begin{nullptr};
  std::atomic<std::size_t> bytes{0};
};

// What a child gets. It has it from its parent as memory like any other afterwards, and so have its own children.
// Read between fork() and exec() of a program with threads: nothing here may lock or allocate. One thread at a time changes it.
struct Lent {
  std::atomic<std::byte*> base{nullptr};
  std::atomic<std::size_t> bytes{0};
  std::atomic<int> fd{-1};
  FileIdentity identity;       // written while there is no base
  std::array<Hole, 64> holes;  // what is withdrawn beyond that is lost to children, with what lies before the next hole
};
Lent lent;

// What a child closes, under the same rules.
struct Withheld {
  std::atomic<int> fd{-1};
  FileIdentity file;  // written while there is no descriptor
};
std::array<Withheld, 320> withheld;

void close_withheld() {
  for (Withheld& each : withheld) {
    const int fd = each.fd.exchange(-1);
    if (fd >= 0 && each.file.is_of(fd)) ::close(fd);
  }
}

// Where the first hole at `from` or behind it begins, or `end`; where it ends in `after`. Holes may overlap.
std::byte* next_hole(std::byte* from, std::byte* end, std::byte*& after) {
  std::byte* next = after = end;
  for (const Hole& hole : lent.holes) {
    std::byte* const begin = std::max<std::byte*>(hole.begin, from);
    std::byte* const behind = hole.begin + hole.bytes;
    if (behind <= from || begin >= next) continue;
    next = begin;
    after = behind;
  }
  return next;
}

void take_lent() {
  std::byte* const base = lent.base.exchange(nullptr);
  if (base == nullptr) return;
  std::byte* const end = lent.identity.is_of(lent.fd) ? base + lent.bytes : base;
  constexpr int kFlags = MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE;  // nowhere else
  const auto map = [base](std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    [[maybe_unused]] const void* mapped =
        ::mmap(from, bytes, PROT_READ | PROT_WRITE, kFlags, lent.fd, static_cast<off_t>(from - base));
  };
  for (std::byte *from = base, *after = nullptr; from < end; from = after) {
    std::byte* const to = next_hole(from, end, after);
    map(from, static_cast<std::size_t>(to - from));
  }
  for (Hole& hole : lent.holes) {
    if (end != base) map(hole.begin, hole.bytes);  // where nothing is yet: the parent was about to make it private
    hole.bytes = 0;                                // the next mapping that is lent is another one
  }
}

}  // namespace

Status keep_out_of_children(void* base, std::size_t bytes) {
  if (::madvise(base, bytes, MADV_DONTFORK) != 0)
    return system_error("Cannot keep shared memory out of forked children (MADV_DONTFORK)", errno);
  ::madvise(base, bytes, MADV_DONTDUMP);  // a smaller core file is a kindness, not a need
  return {};
}

void lend_to_children(const MemoryFile& file, std::byte* base, std::size_t bytes) {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, take_lent); });
  lent.base = nullptr;
  lent.fd = file.fd.get();
  lent.identity = file.identity;
  lent.bytes = bytes;
  lent.base = base;
}

void add_hole(std::byte* begin, std::size_t bytes) {
  for (Hole& hole : lent.holes) {
    if (hole.bytes != 0) continue;
    hole.begin = begin;
    hole.bytes = bytes;
    return;
  }
}

void remove_hole(const std::byte* begin) {
  for (Hole& hole : lent.holes) {
    if (hole.bytes != 0 && hole.begin == begin) hole.bytes = 0;
  }
}

void withhold_from_children(int fd, const FileIdentity& file) {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, close_withheld); });
  for (Withheld& each : withheld) {
    if (each.fd >= 0) continue;
    each.file = file;
    each.fd = fd;
    return;
  }
}

void end_withholding(int fd) {
  for (Withheld& each : withheld) {
    if (each.fd == fd) each.fd = -1;
  }
}

}  // namespace customccl
