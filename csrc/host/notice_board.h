#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/host_arena.h"
#include "host/peer_arena.h"

namespace customccl {

// A meeting of several boards: the number that the callers gave it, and a digest of who was asked to come.
struct MeetingName {
  std::int64_t number = 0;
  std::uint64_t members = 0;
  bool given_up = false;  // by the owner of the board
  int culprit = -1;       // because of this rank
};

// What a board shows, and to which meeting.
struct Notice {
  MeetingName meeting;
  std::string text;
};

// The page of memory itself. One writer, any number of readers in other processes, which never stop the writer: a reader that
// sees the version change reads again. Everything is atomic, so that a reader may look at any time, also after the board went
// to another owner.
class NoticePage {
 public:
  // What a reader found.
  struct Seen {
    static constexpr std::size_t kNames = 16;
    std::uint64_t owner = 0;
    std::vector<MeetingName> meetings;  // newest first: the one shown, and those before it, as far as is remembered
    std::string text;
  };
  void clear(std::uint64_t owner);
  Status write(const Notice& notice);
  void give_up(int culprit);
  // False while it is being changed.
  bool read(Seen& out) const;

 private:
  using Word = std::atomic<std::uint64_t>;
  struct Name {
    Word number;
    Word members;
    Word end;  // 0, or if given up the culprit + 2
    void store(const MeetingName& name);
    MeetingName load() const;
  };

  Word version_;  // odd while the page is being written
  Word owner_;
  Word count_;   // of the notices that this owner has shown
  Word length_;  // of the text, in bytes
  std::array<Name, Seen::kNames> names_;
  std::array<Word, 508 - 3 * Seen::kNames> text_;
};

// Where a process that has no store in common with others shows them one short text at a time. They find it by its handle, from
// anywhere on the host, as long as this object lives. Thread rule: used by one thread at a time.
class NoticeBoard {
 public:
  static Status make(std::unique_ptr<NoticeBoard>& out);
  ~NoticeBoard();
  NoticeBoard(const NoticeBoard&) = delete;
  NoticeBoard& operator=(const NoticeBoard&) = delete;

  // One line of text. Who has it, and runs as the same user on this host, can map this process's shared memory.
  const std::string& handle() const { return handle_; }
  Status show(const Notice& notice);
  // Tells those who still look for what is shown that this process comes no more.
  void give_up(int culprit);

 private:
  NoticeBoard(HostArena& arena, const Block& page) : arena_(arena), page_(page) {}

  HostArena& arena_;
  Block page_;
  std::string handle_;
  std::uint64_t generation_ = fork_generation();
};

// What a handle says: where the page is, and which of all boards that used the page is meant.
struct NoticeAddress {
  ArenaAddress arena;
  std::uint64_t offset = 0;
  std::uint64_t owner = 0;

  std::string to_text() const;
  static Status from_text(const std::string& text, NoticeAddress& out);
};

}  // namespace customccl
