#include "host/notice_meeting.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "support/ranks.h"
#include "support/trial.h"

// Ranks that meet by each other's handles alone.

namespace customccl::test {
namespace {

using namespace std::chrono_literals;

std::unique_ptr<NoticeBoard> make_board() {
  std::unique_ptr<NoticeBoard> board;
  const Status status = NoticeBoard::make(board);
  EXPECT_TRUE(status.ok()) << status.message();
  return board;
}

// Tells the others this board's handle, and learns theirs.
std::vector<std::string> exchange(const Rank& rank, const NoticeBoard& board, const std::string& place = "handles") {
  const auto meeting = rank.meeting(place);
  EXPECT_TRUE(meeting->put(std::to_string(rank.number()), board.handle()).ok());
  std::vector<std::string> handles(static_cast<std::size_t>(rank.size()));
  for (std::size_t other = 0; other < handles.size(); ++other)
    EXPECT_TRUE(meeting->get(std::to_string(other), Deadline(1h), handles[other]).ok());
  return handles;
}

Status join(const Rank& rank, NoticeBoard& board, std::int64_t number, const std::vector<std::string>& handles,
            std::shared_ptr<Communicator>& out, Nanos limit = 1h) {
  std::unique_ptr<NoticeMeeting> meeting;
  if (Status status = NoticeMeeting::open(board, number, handles, meeting); !status.ok()) return status;
  GroupSpec spec = rank.spec("by handles", limit);
  spec.rank = meeting->rank();
  return Communicator::create(spec, *meeting, out);
}

void expect_to_work(const Rank& rank, Communicator& group) {
  const Part part(even_trial(Op::kAllReduce, rank.size(), DType::kInt32, 5000), group.spec().rank);
  const Status status = group.run(part.call());
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(part.verify(), "");
}

void meet_again_and_again(const Rank& rank) {
  const auto board = make_board();
  std::vector<std::string> handles = exchange(rank, *board);
  for (int round = 0; round < 20; ++round) {
    std::shared_ptr<Communicator> group;
    const Status status = join(rank, *board, round, handles, group);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(group->spec().rank, (rank.number() + round) % rank.size());
    expect_to_work(rank, *group);
    std::rotate(handles.begin(), handles.end() - 1, handles.end());
  }
  rank.meet("end");
}

TEST(NoticeMeetingProcess, BringsProcessesTogetherAgainAndAgain) { run_processes(3, meet_again_and_again); }

TEST(NoticeMeeting, BringsThreadsTogetherAgainAndAgain) { run_threads(3, meet_again_and_again); }

TEST(NoticeMeeting, NamesAllThatDidNotCome) {
  run_threads(4, [](const Rank& rank) {
    const auto board = make_board();
    const auto handles = exchange(rank, *board);
    std::shared_ptr<Communicator> group;
    if (rank.number() % 2 == 0) {
      const Status status = join(rank, *board, 1, handles, group, 500ms);
      EXPECT_FALSE(status.ok());
      // One of the two was first; the other has seen it itself or heard of it.
      EXPECT_NE(status.message().find("rank 41 did not join"), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("did not come, nor did rank 3"), std::string::npos) << status.message();
    }
    rank.meet("given up");
    const Status status = join(rank, *board, 2, handles, group);
    ASSERT_TRUE(status.ok()) << status.message();
    expect_to_work(rank, *group);
    rank.meet("end");
  });
}

TEST(NoticeMeeting, SaysThatTheRanksWereGivenOtherHandles) {
  run_threads(2, [](const Rank& rank) {
    const auto board = make_board();
    auto handles = exchange(rank, *board);
    if (rank.number() == 1) std::swap(handles[0], handles[1]);
    std::shared_ptr<Communicator> group;
    const Status status = join(rank, *board, 1, handles, group, 10s);
    EXPECT_EQ(status.code, Code::kMismatch) << status.message();
    EXPECT_NE(status.message().find("other handles"), std::string::npos) << status.message();
    rank.meet("end");
  });
}

// Rank 1 gives the attempt up and is in the next one before rank 0 looks.
TEST(NoticeMeeting, HearsOfARankThatHasGivenUpAndGoneOn) {
  run_threads(2, [](const Rank& rank) {
    const auto board = make_board();
    const auto handles = exchange(rank, *board);
    if (rank.number() == 1) {
      for (std::int64_t number = 1; number <= 10; ++number) {
        std::unique_ptr<NoticeMeeting> meeting;
        ASSERT_TRUE(NoticeMeeting::open(*board, number, handles, meeting).ok());
        ASSERT_TRUE(meeting->put(key_of_rank(1), "came").ok());
        if (number == 5) board->give_up(7);
      }
    }
    rank.meet("gone on");
    if (rank.number() == 0) {
      std::shared_ptr<Communicator> group;
      const Status status = join(rank, *board, 5, handles, group);
      EXPECT_EQ(status.code, Code::kPeerLeft) << status.message();
      EXPECT_NE(status.message().find("it has given this attempt up, because of rank 7"), std::string::npos)
          << status.message();
    }
    rank.meet("end");
  });
}

TEST(NoticeMeeting, RefusesHandlesThatMakeNoSense) {
  const auto board = make_board();
  const auto other = make_board();
  const std::string own = board->handle();
  std::unique_ptr<NoticeMeeting> meeting;
  for (const auto& handles : std::vector<std::vector<std::string>>{
           {}, {own, own}, {other->handle()}, {own, "nonsense"}, {own, other->handle() + " more"}, {own, ""}}) {
    EXPECT_EQ(NoticeMeeting::open(*board, 1, handles, meeting).code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(NoticeMeeting::open(*board, 1, {other->handle(), own}, meeting).ok());
  EXPECT_EQ(meeting->rank(), 1);
}

TEST(NoticeMeeting, KnowsABoardThatIsGoneAlthoughItsPageHasANewOwner) {
  const auto board = make_board();
  std::string gone = make_board()->handle();
  const auto next = make_board();
  NoticeAddress before, after;
  ASSERT_TRUE(NoticeAddress::from_text(gone, before).ok());
  ASSERT_TRUE(NoticeAddress::from_text(next->handle(), after).ok());
  ASSERT_EQ(before.offset, after.offset);
  std::unique_ptr<NoticeMeeting> meeting;
  ASSERT_TRUE(NoticeMeeting::open(*board, 1, {board->handle(), gone}, meeting).ok());
  std::string value;
  EXPECT_EQ(meeting->get(key_of_rank(1), Deadline(1h), value).code, Code::kPeerLeft);
}

TEST(NoticeMeetingProcess, SeesAtOnceThatAProcessDied) {
  Processes ranks(2, [](const Rank& rank) {
    const auto board = make_board();
    const auto handles = exchange(rank, *board);
    std::shared_ptr<Communicator> group;
    if (rank.number() == 1) {
      rank.meet("never");
      return;
    }
    const Status status = join(rank, *board, 1, handles, group);
    EXPECT_TRUE(status.code == Code::kPeerDied || status.code == Code::kUnreachable) << status.message();
    EXPECT_EQ(status.culprit, 41);
  });
  std::string ignored;
  ASSERT_TRUE(ranks.onlooker().meeting("handles")->get("1", Deadline(1h), ignored).ok());
  ranks.signal(1, SIGKILL);
  EXPECT_EQ(ranks.wait(0), 0);
}

TEST(NoticePage, IsNeverReadHalfWritten) {
  const auto board = make_board();
  NoticeAddress address;
  ASSERT_TRUE(NoticeAddress::from_text(board->handle(), address).ok());
  HostArena* arena = nullptr;
  ASSERT_TRUE(HostArena::get(arena).ok());
  const auto* page = reinterpret_cast<const NoticePage*>(arena->base() + address.offset);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::int64_t round = 1; round <= rounds(20000); ++round) {
      const std::string text(static_cast<std::size_t>(1 + round % 900), static_cast<char>('a' + round % 26));
      EXPECT_TRUE(board->show({{.number = round, .members = static_cast<std::uint64_t>(round) * 3}, text}).ok());
    }
    done = true;
  });
  int wrong = 0;
  while (!done) {
    NoticePage::Seen seen;
    if (!page->read(seen) || seen.meetings.empty()) continue;
    const MeetingName& name = seen.meetings[0];
    const std::string right(static_cast<std::size_t>(1 + name.number % 900), static_cast<char>('a' + name.number % 26));
    if (name.members != static_cast<std::uint64_t>(name.number) * 3 || seen.text != right) ++wrong;
    for (std::size_t back = 1; back < seen.meetings.size(); ++back)
      if (seen.meetings[back].number != name.number - static_cast<std::int64_t>(back)) ++wrong;
  }
  writer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(board->show({{}, std::string(5000, 'x')}).ok());
}

}  // namespace
}  // namespace customccl::test
