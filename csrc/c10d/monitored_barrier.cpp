#include "c10d/monitored_barrier.h"

#include <ATen/ops/empty.h>

#include <limits>

#include "c10d/work.h"

namespace customccl::torch_shim {

namespace {

// Tags that no user's message has.
constexpr int kHere = std::numeric_limits<int>::min();
constexpr int kGo = kHere + 1;
// What rank 0 waits for must not end the group before rank 0 has judged.
constexpr Nanos kGrace = std::chrono::minutes(1);

using Note = std::shared_ptr<TensorTask>;

Note post_note(Communicator& group, Op op, int peer, int tag, Nanos limit) {
  const at::Tensor nothing = at::empty({0}, at::kByte);
  PreparedCall prepared(op);
  op == Op::kSend ? prepared.add_input(nothing) : prepared.add_output(nothing);
  prepared.call().peer = peer;
  prepared.call().tag = tag;
  auto note = std::make_shared<TensorTask>(std::move(prepared), limit, at::TensorList(), at::TensorList());
  group.post(note);
  return note;
}

bool came(const Note& note) { return note->done() && note->status().ok(); }

// Global ranks of the peers 1, 2, ... whose notes came, or did not.
std::string ranks(const Communicator& group, const std::vector<Note>& notes, bool that_came) {
  std::string text;
  for (std::size_t i = 0; i < notes.size(); ++i) {
    if (came(notes[i]) != that_came) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(group.global_rank(static_cast<int>(i) + 1));
  }
  return text;
}

// The error that broke a wait of rank 0, if it was not the clock.
std::string cause(const std::vector<Note>& notes) {
  for (const Note& note : notes) {
    if (note->done() && !note->status().ok()) return "\n Original exception: \n" + note->status().message();
  }
  return "";
}

void report(Communicator& group, Nanos limit) {
  const Note here = post_note(group, Op::kSend, 0, kHere, limit);
  const Note go = post_note(group, Op::kRecv, 0, kGo, limit);
  for (const Note& note : {here, go}) {
    group.wait(*note, Nanos(0));
    if (note->status().ok()) continue;
    const int judge = group.global_rank(0);
    C10_THROW_ERROR(DistBackendError,
                    c10::str("Rank ", group.global_rank(group.spec().rank),
                             " successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                             "from rank ",
                             judge, ". Please check rank ", judge, " logs for faulty rank.\n Original exception: \n",
                             note->status().message()));
  }
}

std::string verdict(const Communicator& group, const std::vector<Note>& notes, const std::string& limit,
                    bool wait_all_ranks) {
  const int judge = group.global_rank(0);
  const std::string missing = ranks(group, notes, false);
  if (wait_all_ranks) {
    return c10::str("[Rank ", judge, "]: Ranks ", missing, " failed to pass monitoredBarrier in ", limit, cause(notes));
  }
  const std::size_t end = missing.find(',');
  std::string text =
      c10::str("[Rank ", judge, "]: Rank ", missing.substr(0, end), " failed to pass monitoredBarrier in ", limit);
  if (end != std::string::npos) text += ". Not there either: " + missing.substr(end + 2);
  return text + cause(notes);
}

void judge(Communicator& group, Nanos limit, bool wait_all_ranks) {
  const std::string stated =
      std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(limit).count()) + " ms";
  if (wait_all_ranks && limit.count() == 0) limit = group.limit_of(Call());
  const Deadline deadline(limit);
  const auto fail = [&](const std::string& text) {
    group.abort(text);
    C10_THROW_ERROR(DistBackendError, text);
  };
  const Nanos own = std::max(limit, Nanos(0)) + kGrace;
  std::vector<Note> notes;
  for (int peer = 1; peer < group.spec().size; ++peer) notes.push_back(post_note(group, Op::kRecv, peer, kHere, own));
  for (const Note& note : notes) {
    if (!wait_all_ranks && deadline.passed()) {
      const std::string there = ranks(group, notes, true);
      fail(c10::str("Rank ", group.global_rank(0), " timed out in monitoredBarrier after ", stated, ".\n",
                    there.empty() ? "No ranks successfully processed in monitoredBarrier."
                                  : "Successfully processed ranks: " + there));
    }
    group.wait(*note, std::max(deadline.left(), Nanos(1)));
    if (!came(note) && !wait_all_ranks) break;
  }
  if (!ranks(group, notes, false).empty()) fail(verdict(group, notes, stated, wait_all_ranks));
  for (int peer = 1; peer < group.spec().size; ++peer) post_note(group, Op::kSend, peer, kGo, own);
}

}  // namespace

void monitored_barrier(Communicator& group, Nanos limit, bool wait_all_ranks) {
  if (group.spec().rank == 0) return judge(group, limit, wait_all_ranks);
  report(group, std::max(group.limit_of(Call()), limit));
}

}  // namespace customccl::torch_shim
