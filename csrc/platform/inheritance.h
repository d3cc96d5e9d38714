#pragma once

#include <cstddef>

#include "base/status.h"
#include "platform/fd.h"
#include "platform/memory_file.h"

// What a forked child has of the shared memory of its parent, and of the sockets around it.

namespace customccl {

// Nothing of these pages (MADV_DONTFORK).
Status keep_out_of_children(void* base, std::size_t bytes);

// From now on a forked child has a private view of the file at the same place: it can read a tensor that lies there and that it has from its
// parent, what it writes is its own, and no other memory comes to lie under such a tensor. For one mapping of this process, which lives
// as long as the process.
void lend_to_children(const MemoryFile& file, std::byte* base, std::size_t bytes);

// Pages of what is lent have become private memory (make_private), which a child inherits by itself; and are the file's again. One thread
// at a time.
void add_hole(std::byte* begin, std::size_t bytes);
void remove_hole(const std::byte* begin);

// A forked child closes the descriptor, if it is still of that file: who waits at the other end for this process to end would wait for the
// child, too. There is room for some hundreds; of more, children keep those that came last. One thread at a time.
void withhold_from_children(int fd, const FileIdentity& file);
// Before it is closed here.
void end_withholding(int fd);

}  // namespace customccl
