#pragma once

#include <string>

#include "host/bootstrap.h"
#include "platform/fd.h"

namespace customccl::capi {

// The bootstrap of ranks that have nothing but a directory in common: one file per key in a directory of their own,
// <where>/customccl-<id>, mode 0700. A file appears whole (written under another name, then renamed) and is never written again.
//
// Its end, for n ranks. Three more names lie there:
//   came-<rank>  a link that says n: made by that rank before it waits or fails, and before its record can be read;
//   gave-up      a link that says why: made by the first rank that fails, for those who come later;
//   notice       the same text, which all ranks hold open: for those who have come, also when the directory is gone by then.
// Links are made whole, once, without a descriptor and whatever the file size limit: who lacks just these can still say so.
//
// Who goes removes the directory with all that is in it
//   - after success: all have come, and nobody reads any more;
//   - when its limit has passed: it has waited for the others long enough;
//   - when it failed, and all n have come. Where ranks disagree on n, the largest counts. Not who could not open the notice and was the first
//     to say anything: those who have come have only gave-up to read, and remove it then;
//   - when it failed, and finds its own came-<rank> gone: another removes, first all of these, then the rest. What this rank has made
//     since (its record, gave-up) the other may have missed; what it made before its mark went, the other removes.
// Else it leaves the directory, and whoever comes finds gave-up and fails at once. A rank makes its came-<rank> before it looks whether
// all have come, so the last one to look finds n of them, unless another did and removes: once all have come and gone, nothing is
// left. A rank that is killed after it came counts as come. Something stays where a rank failed and another does not come after it,
// or where the last to go is killed before it has removed all: then who makes the next directory in <where> removes it, half an
// hour after the failure at the earliest. Nobody waits where gave-up lies, so only one who comes even later loses by that.
// Where all ranks are killed before one fails, there is no gave-up, and the directory stays for good.
//
// Waiting is by timed looks, 50 us to 2 ms apart: this happens once per communicator, and inotify is not to be had
// on every file system, nor in every container.
class MeetingDirectory final : public Bootstrap {
 public:
  MeetingDirectory(const std::string& where, const std::string& id, int rank, int size)
      : where_(where), path_(where + "/customccl-" + id), rank_(rank), size_(size) {}
  ~MeetingDirectory() override;
  MeetingDirectory(const MeetingDirectory&) = delete;
  MeetingDirectory& operator=(const MeetingDirectory&) = delete;

  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;
  Status get_other(const std::string& key, const std::string& seen, const Deadline& deadline,
                   std::string& value) override;
  void replace(const std::string&, const std::string&) override {}  // gave-up says it

  // This rank's last step, with what came of it; a failure is told to the others.
  void leave(const Status& status);

 private:
  Status enter();
  Status open_directory();
  // What another rank that gave up has said; ok while none did.
  Status told() const;
  Status refused(const std::string& what, int error) const;
  bool tell(const Status& why) const;
  bool link(const std::string& name, const std::string& text) const;
  std::string text_of_link(const std::string& name) const;
  void mark() const;
  int size_to_remove(const Status& status) const;
  // For the calls that take a directory and a name: this one, also where it could not be opened.
  std::string at(const std::string& name) const { return directory_ ? name : path_ + "/" + name; }

  std::string where_;
  std::string path_;
  int rank_;
  int size_;
  bool left_ = false;
  Fd directory_;
  Fd notice_;
};

}  // namespace customccl::capi
