#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "platform/fd.h"

// Anonymous shared memory: a file without a name, so nothing can be guessed and nothing is left behind after a kill.

namespace customccl {

struct MemoryFile {
  Fd fd;
  FileIdentity identity;
  std::string mechanism;  // "memfd", or which fallback was used and why memfd was not

  // The program has not closed the descriptor, which is not its own.
  bool intact() const { return identity.is_of(fd.get()); }
};

// A sparse file of `bytes`, sealed against shrinking and growing where the mechanism allows (a peer cannot SIGBUS us).
// Tries memfd_create, then shm_open with a random name that is unlinked at once, then O_TMPFILE in /dev/shm.
Status create_memory_file(std::string_view label, std::size_t bytes, MemoryFile& out);

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Maps all of it, shared, readable and writable, and keeps it out of forked children (MADV_DONTFORK). It begins at a multiple of kHugePage.
Status map_memory_file(const Fd& fd, std::size_t bytes, std::byte*& out);
void unmap_memory(std::byte* base, std::size_t bytes);

// Puts private memory with the same contents in the place of some whole pages of a mapping: who has the file mapped elsewhere no longer
// sees or changes what lies there, and forked children inherit it. share_pages puts the file's pages there again. Where the mapping is lent
// to children (inheritance.h), one thread at a time.
Status make_private(std::byte* data, std::size_t bytes);
Status share_pages(const MemoryFile& file, std::size_t offset, std::byte* data, std::size_t bytes);

// Makes the pages of [offset, offset + bytes) exist (fallocate), so running out of memory is an error here and not a
// signal later. release_pages gives them back (they read as zero afterwards). Neither touches another file that has got the descriptor's
// number since (MemoryFile::intact).
Status reserve_pages(const MemoryFile& file, std::size_t offset, std::size_t bytes);
void release_pages(const MemoryFile& file, std::size_t offset, std::size_t bytes);

// Maps existing pages now, for writing or for reading, where the kernel can (Linux 5.14): else each costs a page fault, some
// 3 us on a virtual machine, when it is first touched.
enum class Access : std::uint8_t { kRead, kWrite };
void map_pages(std::byte* data, std::size_t bytes, Access access);

// Gathers existing pages into huge ones, of as many as fill one: those are mapped in one fault, here and by peers, and their addresses
// translated in fewer steps. Only where the kernel can (Linux 6.1) and finds room; else they stay as they are.
void gather_pages(std::byte* data, std::size_t bytes);

}  // namespace customccl
