#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace customccl {

// Another number for a descriptor that got stdin's, stdout's or stderr's, as the program was started without these: it writes there all
// the same. -1, with errno, where there is none.
inline int beyond_standard(int fd) {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

// Owns a file descriptor, which is never one of the three that every program takes for its own.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(beyond_standard(fd)) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // To somebody else who closes it.
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Which file a descriptor is of. Programs close what is not their own (a daemon closes everything), and what they open next gets the
// number: who has kept one asks whether it still is that file before something is written there.
class FileIdentity {
 public:
  FileIdentity() = default;
  explicit FileIdentity(const Fd& fd) {
    struct stat now{};
    if (::fstat(fd.get(), &now) != 0) return;
    device_ = now.st_dev;
    inode_ = now.st_ino;
  }
  bool is_of(int fd) const {
    struct stat now{};
    return ::fstat(fd, &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
  }

 private:
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace customccl
