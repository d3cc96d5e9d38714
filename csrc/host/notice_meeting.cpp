#include "host/notice_meeting.h"

#include <algorithm>
#include <set>

namespace customccl {

namespace {

constexpr Nanos kSleep = std::chrono::milliseconds(8);  // bounds how late a death is noticed

// FNV-1a: the same for the same handles in the same order, on every machine.
std::uint64_t digest_of(const std::vector<std::string>& handles) {
  std::uint64_t digest = 0xcbf29ce484222325;
  for (const std::string& handle : handles) {
    for (const char letter : handle + '\n') digest = (digest ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return digest;
}

}  // namespace

Status NoticeMeeting::open(NoticeBoard& own, std::int64_t number, const std::vector<std::string>& handles,
                           std::unique_ptr<NoticeMeeting>& out) {
  if (handles.empty()) return {Code::kInvalidArgument, "at least one handle is needed"};
  if (std::set<std::string>(handles.begin(), handles.end()).size() != handles.size())
    return {Code::kInvalidArgument, "a handle stands in the list twice"};
  std::unique_ptr<NoticeMeeting> meeting(new NoticeMeeting(own, number));
  for (const std::string& handle : handles) {
    const std::size_t index = meeting->members_.size();
    if (handle == own.handle()) meeting->rank_ = static_cast<int>(index);
    meeting->index_[key_of_rank(static_cast<int>(index))] = index;
    Member& member = meeting->members_.emplace_back();
    if (Status status = NoticeAddress::from_text(handle, member.address); !status.ok()) return status;
  }
  if (meeting->rank_ < 0) return {Code::kInvalidArgument, "this rank's own handle is not among those given"};
  meeting->name_.members = digest_of(handles);
  out = std::move(meeting);
  return {};
}

Status NoticeMeeting::put(const std::string&, const std::string& value) { return own_.show({name_, value}); }

Status NoticeMeeting::get(const std::string& key, const Deadline& deadline, std::string& value) {
  Member& member = members_[index_.at(key)];
  if (Status status = reach(member, deadline); !status.ok()) return status;
  HostArena* arena = nullptr;
  if (Status status = HostArena::get(arena); !status.ok()) return status;
  for (bool found = false;;) {
    if (Status status = look(member, value, found); found || !status.ok()) return status;
    const std::string process = "process " + std::to_string(member.address.arena.pid);
    if (member.arena->dead()) return {Code::kPeerDied, process + " died"};
    if (deadline.passed()) return {Code::kTimeout, process + " did not come" + absent(member)};
    arena->header().bell.sleep(std::clamp(deadline.left(), Nanos(1), kSleep), [&] {
      std::string seen;
      return !look(member, seen, found).ok() || found;
    });
  }
}

Status NoticeMeeting::reach(Member& member, const Deadline& deadline) {
  if (member.page != nullptr) return {};
  if (Status status = attach(member.address.arena, deadline, member.arena); !status.ok()) return status;
  const std::byte* page = member.arena->at(member.address.offset, sizeof(NoticePage));
  if (page == nullptr || member.address.offset % RangeAllocator::kPage != 0)
    return {Code::kMismatch, "its handle points outside its memory"};
  member.page = reinterpret_cast<const NoticePage*>(page);
  member.arena->bell().ring(true);  // it may wait for what was put here
  return {};
}

Status NoticeMeeting::look(const Member& member, std::string& value, bool& found) const {
  found = false;
  NoticePage::Seen seen;
  if (!member.page->read(seen)) return {};
  if (seen.owner != member.address.owner) return {Code::kPeerLeft, "the group that gave its handle is gone"};
  const auto ours = std::find_if(seen.meetings.begin(), seen.meetings.end(),
                                 [this](const MeetingName& name) { return name.number == name_.number; });
  if (ours == seen.meetings.end()) return {};
  if (ours->members != name_.members) {
    return {Code::kMismatch, "it was given other handles, or the same in another order, under the same number " +
                                 std::to_string(name_.number)};
  }
  if (ours->given_up || ours != seen.meetings.begin()) {
    const std::string whom = ours->culprit >= 0 ? ", because of rank " + std::to_string(ours->culprit) : "";
    return {Code::kPeerLeft, "it has given this attempt up" + whom};
  }
  found = true;
  value = std::move(seen.text);
  return {};
}

// The others of whom nothing is known: so that one attempt names all that did not come.
std::string NoticeMeeting::absent(const Member& awaited) {
  constexpr Nanos kLeast = std::chrono::milliseconds(1);  // who is there answers sooner
  const Deadline patience(std::chrono::milliseconds(50));
  std::string names;
  for (std::size_t index = 0; index < members_.size(); ++index) {
    Member& member = members_[index];
    std::string ignored;
    bool found = false;
    if (&member == &awaited) continue;
    if (reach(member, Deadline(std::max(kLeast, patience.left()))).ok() && look(member, ignored, found).ok() && found)
      continue;
    names += (names.empty() ? ", nor did rank " : ", ") + std::to_string(index);
  }
  return names;
}

}  // namespace customccl
