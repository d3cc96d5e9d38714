#include "platform/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>

#include "platform/byte_size.h"
#include "platform/errno_text.h"
#include "platform/file_limit.h"
#include "platform/inheritance.h"
#include "platform/log.h"
#include "platform/process.h"
#include "platform/settings.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3; older C libraries do not name it
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace customccl {
namespace {

// fallocate on shared memory gives up and undoes its work when a signal arrives. Pieces this small (about 1 ms) let it
// get through between the ticks of a sampling profiler.
constexpr std::size_t kReservePiece = std::size_t{2} << 20;

int open_memfd(std::string_view label) {
  if (disabled("memfd")) {
    errno = EPERM;
    return -1;
  }
  const std::string name(label.substr(0, 200));  // the kernel takes at most 249 bytes
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create(name.c_str(), flags | MFD_NOEXEC_SEAL);
  return fd < 0 && errno == EINVAL ? ::memfd_create(name.c_str(), flags) : fd;
}

int open_unlinked_shm() {
  const std::string name = "/customccl-" + to_hex(random_id());
  const int fd = ::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0) ::shm_unlink(name.c_str());
  return fd;
}

int open_shm_tmpfile() { return ::open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600); }

// Opens by the first mechanism that works; `mechanism` collects why the ones before it did not.
Status open_anonymous(std::string_view label, MemoryFile& out) {
  out.fd = Fd(open_memfd(label));
  if (out.fd) {
    out.mechanism = "memfd";
    return {};
  }
  if (errno == EMFILE || errno == ENFILE)
    return system_error("Cannot open shared memory", errno, "Raise the limit of open files (ulimit -n).");
  std::string refused = "memfd_create: " + errno_text(errno);
  out.fd = Fd(open_unlinked_shm());
  if (out.fd) {
    out.mechanism = "shm_open, unlinked (" + refused + ")";
    return {};
  }
  refused += "; shm_open: " + errno_text(errno);
  out.fd = Fd(open_shm_tmpfile());
  if (out.fd) {
    out.mechanism = "O_TMPFILE in /dev/shm (" + refused + ")";
    return {};
  }
  refused += "; open(/dev/shm, O_TMPFILE): " + errno_text(errno);
  return {Code::kSystem,
          "No way to make anonymous shared memory works here: " + refused +
              ". Allow memfd_create(2) in the container's seccomp profile, or mount a writable /dev/shm."};
}

Status set_size(const MemoryFile& file, std::size_t bytes) {
  if (const auto limit = file_size_limit(); limit && bytes > *limit) {
    return {Code::kSystem, "Shared memory of " + format_byte_size(bytes) + " bytes exceeds the file size limit of " +
                               format_byte_size(*limit) +
                               " bytes of this process. Raise it (ulimit -f) or lower CUSTOMCCL_ARENA_BYTES."};
  }
  if (::ftruncate(file.fd.get(), static_cast<off_t>(bytes)) == 0) return {};
  return system_error("Cannot size shared memory (" + file.mechanism + ") to " + format_byte_size(bytes) + " bytes",
                      errno, "Lower CUSTOMCCL_ARENA_BYTES.");
}

// As mmap. Somewhat more address space is taken, and what is not needed of it given back.
void* map_aligned(const Fd& fd, std::size_t bytes) {
  constexpr int kAnywhere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const room = ::mmap(nullptr, bytes + kHugePage, PROT_NONE, kAnywhere, -1, 0);
  if (room == MAP_FAILED) return room;
  auto* const begin = static_cast<std::byte*>(room);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(room) % kHugePage;
  if (before != 0) ::munmap(begin, before);
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t mapped = (bytes + page - 1) / page * page;
  ::munmap(begin + before + mapped, kHugePage - before);
  constexpr int kThere = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
  void* const base = ::mmap(begin + before, bytes, PROT_READ | PROT_WRITE, kThere, fd.get(), 0);
  if (base == MAP_FAILED) ::munmap(begin + before, bytes);
  return base;
}

Status check_open(const MemoryFile& file) {
  if (file.intact()) return {};
  return {Code::kSystem, "The descriptor of this process's shared memory (" + std::to_string(file.fd.get()) +
                             ") was closed by the program: leave open what it did not open itself (os.closerange, a "
                             "daemon's start), or do that before the first group is made."};
}

}  // namespace

Status create_memory_file(std::string_view label, std::size_t bytes, MemoryFile& out) {
  MemoryFile file;
  if (Status status = open_anonymous(label, file); !status.ok()) return status;
  if (Status status = set_size(file, bytes); !status.ok()) return status;
  // Files in /dev/shm cannot be sealed: there the peers have to be trusted, as they run under the same user.
  if (file.mechanism == "memfd" &&
      ::fcntl(file.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    file.mechanism += ", unsealed (F_ADD_SEALS: " + errno_text(errno) + ")";
  }
  file.identity = FileIdentity(file.fd);
  out = std::move(file);
  return {};
}

Status map_memory_file(const Fd& fd, std::size_t bytes, std::byte*& out) {
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return system_error("Cannot examine the shared memory of a process", errno);
  if (facts.st_size < 0 || static_cast<std::size_t>(facts.st_size) < bytes) {
    return {Code::kInvalidArgument, "Refused to map " + std::to_string(bytes) +
                                        " bytes of shared memory that has only " + std::to_string(facts.st_size) +
                                        ": touching the rest would kill this process."};
  }
  void* base = map_aligned(fd, bytes);
  if (base == MAP_FAILED) {
    return system_error("Cannot map " + format_byte_size(bytes) + " bytes of shared memory", errno,
                        "Raise the address space limit (ulimit -v) or lower CUSTOMCCL_ARENA_BYTES.");
  }
  if (Status status = keep_out_of_children(base, bytes); !status.ok()) {
    ::munmap(base, bytes);
    return status;
  }
  out = static_cast<std::byte*>(base);
  return {};
}

Status make_private(std::byte* data, std::size_t bytes) {
  void* fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return system_error("Cannot get " + format_byte_size(bytes) + " of private memory", errno);
  map_pages(static_cast<std::byte*>(fresh), bytes, Access::kWrite);
  std::memcpy(fresh, data, bytes);
  add_hole(data, bytes);
  if (::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data) != MAP_FAILED) return {};
  remove_hole(data);
  const Status status = system_error("Cannot put private memory in the place of shared memory", errno);
  ::munmap(fresh, bytes);
  return status;
}

Status share_pages(const MemoryFile& file, std::size_t offset, std::byte* data, std::size_t bytes) {
  constexpr int kFlags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
  if (Status status = check_open(file); !status.ok()) return status;
  if (::mmap(data, bytes, PROT_READ | PROT_WRITE, kFlags, file.fd.get(), static_cast<off_t>(offset)) == MAP_FAILED)
    return system_error("Cannot map " + format_byte_size(bytes) + " of shared memory again", errno);
  Status status = keep_out_of_children(data, bytes);
  remove_hole(data);
  return status;
}

void unmap_memory(std::byte* base, std::size_t bytes) {
  if (base != nullptr) ::munmap(base, bytes);
}

Status reserve_pages(const MemoryFile& file, std::size_t offset, std::size_t bytes) {
  if (Status status = check_open(file); !status.ok()) return status;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t piece = std::min(kReservePiece, bytes - done);
    if (::fallocate(file.fd.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) == 0) {
      done += piece;
    } else if (errno != EINTR) {
      return system_error(
          "Cannot reserve " + format_byte_size(bytes) + " bytes of shared memory (got " + format_byte_size(done) + ")",
          errno,
          "Give the machine, the container's memory limit or /dev/shm (docker: --shm-size) more room, or "
          "lower CUSTOMCCL_STAGING_BUDGET.");
    }
  }
  return {};
}

void release_pages(const MemoryFile& file, std::size_t offset, std::size_t bytes) {
  if (bytes == 0) return;
  if (Status status = check_open(file); !status.ok()) {
    static std::once_flag once;
    std::call_once(once, [&] { log(LogLevel::kWarning, "shared memory is not given back: " + status.message()); });
    return;
  }
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  while (::fallocate(file.fd.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    log(LogLevel::kWarning,
        "cannot give back " + format_byte_size(bytes) + " bytes of shared memory: " + errno_text(errno));
    return;
  }
}

void gather_pages(std::byte* data, std::size_t bytes) {
  if (!disabled("huge_pages")) (void)::madvise(data, bytes / kHugePage * kHugePage, MADV_COLLAPSE);
}

void map_pages(std::byte* data, std::size_t bytes, Access access) {
#if defined(MADV_POPULATE_READ)
  const std::size_t before = reinterpret_cast<std::uintptr_t>(data) % static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Refused by an older kernel: then pages are mapped when they are touched.
  (void)::madvise(data - before, bytes + before, access == Access::kWrite ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
#else
  (void)data, (void)bytes, (void)access;
#endif
}

}  // namespace customccl
