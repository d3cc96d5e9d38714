#include "host/notice_board.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/attempt.h"

namespace customccl {

namespace {

constexpr const char* kFormat = "customccl-handle-2";  // first word of every handle

constexpr std::size_t kWord = sizeof(std::uint64_t);

NoticePage& page_at(const Block& block) { return *reinterpret_cast<NoticePage*>(block.data); }

}  // namespace

static_assert(sizeof(NoticePage) == RangeAllocator::kPage);

void NoticePage::Name::store(const MeetingName& name) {
  number.store(static_cast<std::uint64_t>(name.number), std::memory_order_release);
  members.store(name.members, std::memory_order_release);
  end.store(name.given_up ? static_cast<std::uint64_t>(name.culprit + 2) : 0, std::memory_order_release);
}

MeetingName NoticePage::Name::load() const {
  MeetingName name;
  name.number = static_cast<std::int64_t>(number.load(std::memory_order_acquire));
  name.members = members.load(std::memory_order_acquire);
  const std::uint64_t how = end.load(std::memory_order_acquire);
  name.given_up = how != 0;
  name.culprit = name.given_up ? static_cast<int>(how) - 2 : -1;
  return name;
}

// A sequence lock. Stores are releases and loads acquires, so who read a word of a newer text sees the newer version too.
void NoticePage::clear(std::uint64_t owner) {
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  owner_.store(owner, std::memory_order_release);
  count_.store(0, std::memory_order_release);
  length_.store(0, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
}

Status NoticePage::write(const Notice& notice) {
  if (notice.text.size() > text_.size() * kWord) {
    return {Code::kSystem, "what this rank says of itself has " + std::to_string(notice.text.size()) +
                               " bytes, and the page for it only " + std::to_string(text_.size() * kWord)};
  }
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  const std::uint64_t count = count_.load(std::memory_order_relaxed);
  names_[count % Seen::kNames].store(notice.meeting);
  count_.store(count + 1, std::memory_order_release);
  length_.store(notice.text.size(), std::memory_order_release);
  for (std::size_t at = 0; at < notice.text.size(); at += kWord) {
    std::uint64_t word = 0;
    std::memcpy(&word, notice.text.data() + at, std::min(kWord, notice.text.size() - at));
    text_[at / kWord].store(word, std::memory_order_release);
  }
  version_.store(version + 2, std::memory_order_release);
  return {};
}

void NoticePage::give_up(int culprit) {
  const std::uint64_t count = count_.load(std::memory_order_relaxed);
  if (count == 0) return;
  names_[(count - 1) % Seen::kNames].end.store(static_cast<std::uint64_t>(culprit) + 2, std::memory_order_release);
}

bool NoticePage::read(Seen& out) const {
  const std::uint64_t version = version_.load(std::memory_order_acquire);
  out.owner = owner_.load(std::memory_order_acquire);
  const std::uint64_t count = count_.load(std::memory_order_acquire);
  out.meetings.clear();
  for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(count, Seen::kNames); ++back)
    out.meetings.push_back(names_[(count - back) % Seen::kNames].load());
  const std::uint64_t length = length_.load(std::memory_order_acquire);
  if (length > text_.size() * kWord) return false;
  out.text.resize(length);
  for (std::size_t at = 0; at < length; at += kWord) {
    const std::uint64_t word = text_[at / kWord].load(std::memory_order_acquire);
    std::memcpy(out.text.data() + at, &word, std::min<std::size_t>(kWord, length - at));
  }
  return (version & 1) == 0 && version_.load(std::memory_order_relaxed) == version;
}

Status NoticeBoard::make(std::unique_ptr<NoticeBoard>& out) {
  HostArena* arena = nullptr;
  if (Status status = HostArena::get(arena); !status.ok()) return status;
  NoticeAddress address;
  if (Status status = ArenaAddress::own(address.arena); !status.ok()) return status;
  Block page;
  if (Status status = arena->take_board(page); !status.ok()) return status;
  std::unique_ptr<NoticeBoard> board(new NoticeBoard(*arena, page));
  address.offset = page.offset;
  address.owner = random_id()[0];
  page_at(page).clear(address.owner);
  board->handle_ = address.to_text();
  out = std::move(board);
  return {};
}

NoticeBoard::~NoticeBoard() {
  if (generation_ != fork_generation()) return;  // the parent's
  page_at(page_).clear(0);
  attempt([this] { arena_.give_board(page_); });  // without the memory to remember it nobody gets the page
}

Status NoticeBoard::show(const Notice& notice) { return page_at(page_).write(notice); }

void NoticeBoard::give_up(int culprit) { page_at(page_).give_up(culprit); }

std::string NoticeAddress::to_text() const {
  std::ostringstream text;
  text << kFormat << ' ' << arena << ' ' << offset << ' ' << owner;
  return text.str();
}

Status NoticeAddress::from_text(const std::string& text, NoticeAddress& out) {
  std::istringstream words(text);
  std::string format;
  words >> format >> out.arena >> out.offset >> out.owner;
  if (words && format == kFormat && words.peek() == std::istringstream::traits_type::eof()) return {};
  std::string why = "this is no handle of this version of customccl: ";
  return {Code::kInvalidArgument, why.append(text, 0, 200)};
}

}  // namespace customccl
