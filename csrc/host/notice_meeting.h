#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/bootstrap.h"
#include "host/notice_board.h"

namespace customccl {

// The bootstrap of processes of one host that have nothing in common but each other's handles: each shows what it puts on its own
// notice board, and looks at the boards of the others. Who waits is rung when something was put, and sees at once that a process
// died. No file, no socket of its own, and nothing to clean up.
class NoticeMeeting final : public Bootstrap {
 public:
  // `handles`: of all ranks, by rank. `number`: tells meetings of these boards apart; each is used once.
  static Status open(NoticeBoard& own, std::int64_t number, const std::vector<std::string>& handles,
                     std::unique_ptr<NoticeMeeting>& out);
  // This process's place among the handles.
  int rank() const { return rank_; }

  // One value, under this rank's key.
  Status put(const std::string& key, const std::string& value) override;
  // kMismatch when that rank was given other handles for the same number, kPeerDied, kPeerLeft or kUnreachable when it cannot come.
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;

 private:
  struct Member {
    NoticeAddress address;
    std::shared_ptr<PeerArena> arena;
    const NoticePage* page = nullptr;
  };

  NoticeMeeting(NoticeBoard& own, std::int64_t number) : own_(own) { name_.number = number; }
  Status reach(Member& member, const Deadline& deadline);
  // Whether its text is there; an error when it will never be.
  Status look(const Member& member, std::string& value, bool& found) const;
  std::string absent(const Member& awaited);

  NoticeBoard& own_;
  MeetingName name_;
  int rank_ = -1;
  std::vector<Member> members_;
  std::map<std::string, std::size_t> index_;  // key -> member
};

}  // namespace customccl
