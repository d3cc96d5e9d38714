#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace customccl {

// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
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
