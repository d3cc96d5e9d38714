#pragma once

#include <cstddef>

#include "base/status.h"
#include "platform/fd.h"
#include "platform/memory_file.h"

// What a forked child has of the shared memory of its parent, and of the sockets around it.

namespace customccl {

// Nothing of these pages (MADV_DONTFORK).
Status keep_out_of_children(void* base, std::size_t bytes);

// From now on a forked child has the file at the same place all the same, but what it writes there is its own: what lies there can be used
// by a child that has it (a tensor), as memory that is shared with a parent can, and nothing else can come to lie there. For one
// mapping of this process, for as long as it lives.
void lend_to_children(const MemoryFile& file, std::byte* base, std::size_t bytes);

// Of what is lent: these pages became private memory, which a child inherits by itself (make_private); they are the file's again. One thread
// at a time.
void add_hole(std::byte* begin, std::size_t bytes);
void remove_hole(const std::byte* begin);

// A forked child closes the descriptor, while it is of that file: who waits at the other end for this process to end would wait for the
// child, too. Of more than some hundreds children keep the last. One thread at a time.
void withhold_from_children(int fd, const FileIdentity& file);
// Before it is closed here.
void end_withholding(int fd);

}  // namespace customccl
