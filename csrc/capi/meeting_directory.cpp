#include "capi/meeting_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "base/attempt.h"
#include "base/first_bytes.h"
#include "capi/customccl.h"
#include "platform/errno_text.h"
#include "platform/file_limit.h"

namespace customccl::capi {

namespace {

constexpr const char* kNotice = "notice";
constexpr const char* kGaveUp = "gave-up";
constexpr const char* kDraft = ".new";

// What a text begins with, else 0.
int number_in(const std::string& text) { return static_cast<int>(std::strtol(text.c_str(), nullptr, 10)); }

std::string came(int rank) { return "came-" + std::to_string(rank); }

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

Status twice(const std::string& key) { return {Code::kMismatch, "two ranks join as " + key + " with the same token"}; }

void pause(Nanos time) {
  const timespec duration{0, static_cast<long>(time.count())};
  ::nanosleep(&duration, nullptr);
}

bool is_ours(const struct stat& facts) {
  return S_ISDIR(facts.st_mode) && facts.st_uid == ::geteuid() && (facts.st_mode & 077) == 0;
}

bool is_ours(const std::string& path) {
  struct stat facts{};
  return ::lstat(path.c_str(), &facts) == 0 && is_ours(facts);
}

// By name, as a process without a free descriptor can do it too: `directory` is `path`, or nothing. The marks go first, so that
// who makes a file meanwhile sees it, and gave-up last: what is left when this is killed is still known for what it is. The
// directory stays where one comes only now, after another's limit: that one removes it in its turn.
void remove_meeting(const Fd& directory, const std::string& path, int size) {
  const std::string place = directory ? "" : path + "/";
  const auto drop = [&](const std::string& name) { ::unlinkat(directory.get(), (place + name).c_str(), 0); };
  for (int rank = 0; rank < size; ++rank) {
    const std::string record = file_name(key_of_rank(rank));
    drop(came(rank));
    drop(record);
    drop(record + kDraft);
  }
  drop(kNotice);
  drop(kGaveUp);
  ::rmdir(path.c_str());
}

// Of a directory whose name looks like a meeting's.
bool gave_up_long_ago(const std::string& path) {
  constexpr std::time_t kKept = 30 * 60;  // seconds; the default limit of those who may still come
  struct stat facts{};
  return is_ours(path) && ::lstat((path + "/" + kGaveUp).c_str(), &facts) == 0 && S_ISLNK(facts.st_mode) &&
         facts.st_uid == ::geteuid() && std::time(nullptr) - facts.st_mtime > kKept;
}

void remove_old_meetings(const std::string& where) {
  constexpr std::string_view kPrefix = "customccl-";
  constexpr std::size_t kIdLength = 32;
  DIR* stream = ::opendir(where.c_str());
  if (stream == nullptr) return;
  std::vector<std::string> found;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(kPrefix) && name.size() == kPrefix.size() + kIdLength) found.emplace_back(name);
  }
  ::closedir(stream);
  for (const std::string& name : found) {
    const std::string path = where + "/" + name;
    if (gave_up_long_ago(path)) remove_meeting(Fd(), path, CUSTOMCCL_MAX_RANKS);
  }
}

}  // namespace

MeetingDirectory::~MeetingDirectory() {
  // Only when an exception ended it.
  if (!left_) attempt([this] { leave({Code::kSystem, "a rank had no memory to join"}); });
}

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
    const bool crowded = error == EMFILE || error == ENFILE;
    if (made && !crowded) ::rmdir(path_.c_str());
    return system_error(what, error, crowded ? "Raise the limit of open files (ulimit -n)." : kAdvice);
  }
  struct stat facts{};
  if (::fstat(directory_.get(), &facts) != 0) return system_error(what, errno, kAdvice);
  if (is_ours(facts)) {
    if (made) remove_old_meetings(where_);
    return {};
  }
  directory_ = Fd();
  if (made) ::rmdir(path_.c_str());  // by a file system that has owners or modes of its own
  return {Code::kSystem, "the directory " + path_ + " belongs to another user or is open to others. " + kAdvice};
}

Status MeetingDirectory::enter() {
  if (notice_) return {};
  // A rank whose limit has passed may remove the directory between two of these steps; then it is made anew.
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (Status status = open_directory(); !status.ok()) return status;
    if (!directory_) continue;
    notice_ = open_in(directory_, kNotice, O_RDWR | O_CREAT);
    if (!notice_ && errno == ENOENT) continue;
    if (!notice_) return system_error("make a file in " + path_, errno);
    mark();  // not before the notice is open: from here on another may remove the directory
    return {};
  }
  return {Code::kSystem, "the directory " + path_ + " is removed again and again"};
}

Status MeetingDirectory::put(const std::string& key, const std::string& value) {
  if (Status status = enter(); !status.ok()) return status;
  if (Status status = told(); !status.ok()) return status;
  const std::string name = file_name(key);
  const std::string draft = name + kDraft;
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
  Status status = error == ENOENT ? told() : Status();
  return status.ok() ? system_error(what, error) : status;
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
    if (Status status = told(); !status.ok()) return status;
    if (deadline.passed()) return {Code::kTimeout, "it put nothing into " + path_ + " within the limit"};
    pause(std::clamp<Nanos>(deadline.left(), Nanos(1), time));
  }
}

// Asked for when a rank's process is gone: it may have said why.
Status MeetingDirectory::get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                                   std::string& value) {
  if (Status status = told(); !status.ok()) return status;
  return Bootstrap::get_other(key, seen, deadline, value);
}

Status MeetingDirectory::told() const {
  const auto noticed = [this] { return notice_ ? read_whole(notice_) : std::string(); };
  std::string text = noticed();
  if (text.empty()) text = text_of_link(kGaveUp);
  struct stat facts{};
  const bool removed = directory_ && ::fstat(directory_.get(), &facts) == 0 && facts.st_nlink == 0;
  if (text.empty() && removed) text = noticed();  // written before
  const std::string head = "another rank gave up: ";
  if (!text.empty()) return {Code::kAborted, head + text.substr(text.find(' ') + 1), number_in(text)};
  return removed ? Status(Code::kAborted, head + "the directory was removed") : Status();
}

// Nothing is to be done if it cannot be written: the others reach their deadlines. What a rank without a descriptor has said is put where
// all who wait can read it when the directory is gone. Two may write that at once, from the file's beginning: the same. True: this rank
// was the first to say anything.
bool MeetingDirectory::tell(const Status& why) const {
  constexpr std::size_t kMost = 1000;  // XFS has room for 1023 in a link
  std::string text = text_of_link(kGaveUp);
  bool first = false;
  if (text.empty()) {
    if (!told().ok()) return false;
    text = std::to_string(why.culprit) + " " + why.message();
    first = link(kGaveUp, std::string(first_bytes(text, kMost)));
    if (const std::string others = first ? "" : text_of_link(kGaveUp); !others.empty()) text = others;
  }
  if (notice_ && read_whole(notice_).empty()) static_cast<void>(write_whole(notice_, text));
  return first;
}

bool MeetingDirectory::link(const std::string& name, const std::string& text) const {
  return ::symlinkat(text.c_str(), directory_.get(), at(name).c_str()) == 0;
}

std::string MeetingDirectory::text_of_link(const std::string& name) const {
  char text[4096];
  const ssize_t length = ::readlinkat(directory_.get(), at(name).c_str(), text, sizeof(text));
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "";
}

void MeetingDirectory::mark() const { link(came(rank_), std::to_string(size_)); }

// How many ranks' files are to be removed; 0 while one may come that is to find them.
int MeetingDirectory::size_to_remove(const Status& status) const {
  const bool removing = text_of_link(came(rank_)).empty();  // another one, who may have missed what this rank made last
  if (removing || status.code == Code::kTimeout) return CUSTOMCCL_MAX_RANKS;
  int size = size_;
  for (int rank = 0; rank < size; ++rank) {
    const int told = number_in(text_of_link(came(rank)));
    if (told == 0) return 0;
    size = std::max(size, told);
  }
  return size;
}

void MeetingDirectory::leave(const Status& status) {
  left_ = true;
  if (status.ok()) {
    if (directory_) remove_meeting(directory_, path_, size_);  // a group of one has none
    return;
  }
  if (!directory_ && !is_ours(path_)) return;
  if (!notice_) mark();                  // not after what it says: whoever reads that finds it
  if (tell(status) && !notice_) return;  // those who wait read of it here: they remove it
  if (const int size = size_to_remove(status); size > 0) remove_meeting(directory_, path_, size);
}

}  // namespace customccl::capi
