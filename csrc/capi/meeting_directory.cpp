#include "capi/meeting_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "platform/errno_text.h"
#include "platform/file_limit.h"

namespace customccl::capi {

namespace {

constexpr const char* kNotice = "notice";

std::string file_name(std::string key) {
  std::replace(key.begin(), key.end(), '/', '-');
  return key;
}

Fd open_in(const Fd& directory, const std::string& name, int flags) {
  return Fd(::openat(directory.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
}

// Into an empty file.
Status write_whole(const Fd& file, const std::string& text) {
  if (const auto limit = file_size_limit(); limit && text.size() > *limit)
    return system_error("write", EFBIG, "Raise the file size limit (ulimit -f).");
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(file.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return system_error("write", errno);
    done += static_cast<std::size_t>(wrote);
  }
  return {};
}

std::string read_whole(const Fd& file) {
  std::string text;
  char block[4096];
  for (;;) {
    const ssize_t got = ::pread(file.get(), block, sizeof(block), static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(block, static_cast<std::size_t>(got));
  }
}

// Not plain rename(): that would replace what another process has put under the same name. Not every file system can do better.
bool rename_unless_there(const Fd& directory, const std::string& from, const std::string& to) {
  const int fd = directory.get();
  if (::renameat2(fd, from.c_str(), fd, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  return (errno == EINVAL || errno == ENOSYS) && ::renameat(fd, from.c_str(), fd, to.c_str()) == 0;
}

Status gave_up(const std::string& why) { return {Code::kAborted, "another rank gave up: " + why}; }

Status twice(const std::string& key) { return {Code::kMismatch, "two ranks join as " + key + " with the same token"}; }

void pause(Nanos time) {
  const timespec duration{0, static_cast<long>(time.count())};
  ::nanosleep(&duration, nullptr);
}

}  // namespace

// The directory is ours alone or not at all: in /tmp others could have made one under this name.
Status MeetingDirectory::open_directory() {
  const std::string what = "make or open the directory " + path_ + " where the ranks meet";
  constexpr const char* kAdvice = "Give another one in customccl_options.directory.";
  const bool made = ::mkdir(path_.c_str(), 0700) == 0;
  if (!made && errno != EEXIST) return system_error(what, errno, kAdvice);
  directory_ = Fd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory_ && errno == ENOENT) return {};  // removed in between: the caller tries again
  if (!directory_) {
    const int error = errno;
    if (made) ::rmdir(path_.c_str());
    const bool crowded = error == EMFILE || error == ENFILE;
    return system_error(what, error, crowded ? "Raise the limit of open files (ulimit -n)." : kAdvice);
  }
  struct stat facts{};
  if (::fstat(directory_.get(), &facts) != 0) return system_error(what, errno, kAdvice);
  if (facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0) return {};
  directory_ = Fd();
  return {Code::kSystem, "the directory " + path_ + " belongs to another user or is open to others. " + kAdvice};
}

Status MeetingDirectory::enter() {
  if (notice_) return {};
  // A rank that gave up may remove the directory between two of these steps; then it is made anew.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (Status status = open_directory(); !status.ok()) return status;
    if (!directory_) continue;
    notice_ = open_in(directory_, kNotice, O_RDWR | O_CREAT | O_APPEND);
    if (notice_) return {};
    if (errno != ENOENT) return system_error("make a file in " + path_, errno);
  }
  return {Code::kSystem, "the directory " + path_ + " is removed again and again"};
}

Status MeetingDirectory::put(const std::string& key, const std::string& value) {
  if (Status status = enter(); !status.ok()) return status;
  const std::string name = file_name(key);
  const std::string draft = name + "." + std::to_string(::getpid()) + ".new";
  const std::string what = "put " + name + " into " + path_;
  Fd file = open_in(directory_, draft, O_WRONLY | O_CREAT | O_EXCL);
  if (!file && errno == EEXIST) return twice(key);
  if (!file) return refused(what, errno);
  if (Status status = write_whole(file, value); !status.ok()) return status;
  if (rename_unless_there(directory_, draft, name)) return {};
  const int error = errno;
  ::unlinkat(directory_.get(), draft.c_str(), 0);
  return error == EEXIST ? twice(key) : refused(what, error);
}

// A file that is not there any more, or a directory: a rank that gave up has removed it.
Status MeetingDirectory::refused(const std::string& what, int error) const {
  const std::string why = error == ENOENT ? notice() : "";
  return why.empty() ? system_error(what, error) : gave_up(why);
}

Status MeetingDirectory::get(const std::string& key, const Deadline& deadline, std::string& value) {
  constexpr Nanos kFirstPause = std::chrono::microseconds(50);
  constexpr Nanos kLastPause = std::chrono::milliseconds(2);
  if (Status status = enter(); !status.ok()) return status;
  const std::string name = file_name(key);
  for (Nanos time = kFirstPause;; time = std::min(time * 2, kLastPause)) {
    if (const Fd file = open_in(directory_, name, O_RDONLY)) {
      value = read_whole(file);
      return {};
    }
    if (errno != ENOENT) return system_error("read " + name + " in " + path_, errno);
    if (const std::string why = notice(); !why.empty()) return gave_up(why);
    if (deadline.passed()) return {Code::kTimeout, "it put nothing into " + path_ + " within the limit"};
    pause(std::clamp<Nanos>(deadline.left(), Nanos(1), time));
  }
}

std::string MeetingDirectory::notice() const {
  std::string text = read_whole(notice_);
  struct stat facts{};
  if (text.empty() && ::fstat(directory_.get(), &facts) == 0 && facts.st_nlink == 0) text = "the directory was removed";
  return text;
}

void MeetingDirectory::give_up(const std::string& why) const {
  if (!notice_ || !read_whole(notice_).empty()) return;
  // Nothing is to be done if it cannot be written: the others reach their deadlines.
  static_cast<void>(write_whole(notice_, why));
}

void MeetingDirectory::remove() {
  if (!directory_) return;
  DIR* stream = ::fdopendir(directory_.get());
  if (stream == nullptr) return;
  const int directory = directory_.release();  // the stream's, which closes it
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream)) names.emplace_back(entry->d_name);
  for (const std::string& name : names) {
    if (name != "." && name != "..") ::unlinkat(directory, name.c_str(), 0);
  }
  ::closedir(stream);
  // Fails when another rank was faster, and when one came only now: that one removes it in its turn.
  ::rmdir(path_.c_str());
}

}  // namespace customccl::capi
