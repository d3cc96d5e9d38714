#pragma once

#include <string>

#include "host/bootstrap.h"
#include "platform/fd.h"

namespace customccl::capi {

// The bootstrap of ranks that have nothing but a directory in common: one file per key in a directory of their own,
// <where>/customccl-<id>, mode 0700. A file appears whole (written under another name, then renamed) and is never written again.
//
// Its end. Who has met everybody, or has failed, removes the directory with all that is in it: once one rank knows that all have met,
// nobody reads any more; and when one fails, nobody can succeed. So it is gone when the last rank returns, also what a killed
// rank had put there. A rank that fails leaves its reason in the file "notice" first. The others, who hold that file
// open, read it there although its name is gone, and fail at once instead of at their deadlines.
//
// Waiting is by timed looks, 50 us to 2 ms apart: this happens once per communicator, and inotify is not to be had
// on every file system, nor in every container.
class MeetingDirectory final : public Bootstrap {
 public:
  MeetingDirectory(const std::string& where, const std::string& id) : path_(where + "/customccl-" + id) {}
  ~MeetingDirectory() override { remove(); }
  MeetingDirectory(const MeetingDirectory&) = delete;
  MeetingDirectory& operator=(const MeetingDirectory&) = delete;

  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;
  void replace(const std::string&, const std::string&) override {}  // the notice says it

  // Tells the ranks that still wait that it was in vain.
  void give_up(const std::string& why) const;

 private:
  Status enter();
  Status open_directory();
  std::string notice() const;
  Status refused(const std::string& what, int error) const;
  void remove();

  std::string path_;
  Fd directory_;
  Fd notice_;
};

}  // namespace customccl::capi
