#include "engines/shm/shown_tensors.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/attempt.h"
#include "base/extent.h"
#include "engines/scratch.h"
#include "engines/shm/fingerprint.h"
#include "platform/errno_text.h"
#include "platform/log.h"
#include "platform/settings.h"

namespace customccl::shm {

namespace {

// In the payload of a line, for each: 0, or one more than the offset of the first element in the rank's arena, or with the highest bit
// its address in the rank's process.
struct Words {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};
static_assert(sizeof(Words) <= kInlineBytes);
constexpr std::uint64_t kAddress = std::uint64_t{1} << 63;
constexpr std::uint64_t kWritten = std::uint64_t{1} << 62;  // of an output: peers write there

// From so many bytes per peer on they are read in its process (docs/measured-decisions.md): with what each reads for itself, the more
// peers, the sooner; all_to_all of 768 KiB and more in all.
std::size_t read_from(Op op, int size) {
  const bool apart = op == Op::kAllToAll;
  return settings().read_peers.value_or((768 << 10) / static_cast<std::size_t>(apart ? size : 2));
}

// Where the elements of all views lie one after the other, what they are; else empty.
Extent run_of(std::span<const View> views, std::size_t element) {
  if (views.empty() || !views[0].contiguous()) return {};
  const std::byte* const begin = views[0].at(0, element);
  const std::byte* end = begin;
  for (const View& view : views) {
    if (view.count == 0) continue;
    if (!view.contiguous() || view.at(0, element) != end) return {};
    end = view.at(view.count, element);
  }
  return {begin, end};
}

// Whether the input stays as it is until all have read it: no output lies there but, in place, where no peer reads, or only before it is
// written (all_reduce).
bool input_stays(const Call& call, int rank, const Extent& input) {
  const std::size_t element = size_of(call.dtype);
  const auto in_place = [&](std::size_t index) -> const std::byte* {
    const auto own = static_cast<std::size_t>(rank);
    switch (call.op) {
      case Op::kAllGather: return index == own ? input.begin : nullptr;
      case Op::kReduceScatter: return call.inputs[own].at(0, element);
      case Op::kAllReduce:
      case Op::kReduce: return input.begin;
      default: return nullptr;
    }
  };
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const View& output = call.outputs[i];
    if (output.count == 0 || !extent_of(output, element).meets(input)) continue;
    if (!output.contiguous() || output.at(0, element) != in_place(i)) return false;
  }
  return true;
}

// How many elements an output that is shown has: this rank may have none of its own (reduce).
std::size_t output_count(const Call& call) { return count_of(call.outputs.empty() ? call.inputs : call.outputs); }

// Whether peers read this input of so many bytes in the process, if they may. A reader does all of the work then, so every rank has to
// have something for every other one; of what all read, each copies what was staged once for all; and reductions gain nothing.
bool read_in_process(Op op, std::size_t bytes, int size) {
  if (op != Op::kAllGather && op != Op::kAllToAll) return false;
  const int shares = op == Op::kAllToAll ? size : size - 1;
  return bytes / static_cast<std::size_t>(shares) >= read_from(op, size);
}

}  // namespace

std::optional<Staged> ShownTensors::place_of(std::span<const View> views, const Call& call) const {
  const Extent run = run_of(views, size_of(call.dtype));
  const auto bytes = static_cast<std::size_t>(run.end - run.begin);
  const bool read = in_caches_ && read_in_process(call.op, bytes, members_.size()) && members_.memory_is_read();
  if (!read && bytes < least()) return std::nullopt;
  if (members_.arena_shares(run.begin, bytes)) return Staged{run.begin};
  if (!read || !can_be_read(run.begin, bytes)) return std::nullopt;
  return Staged{run.begin, Origin::kPeer, members_.rank()};
}

// Where peers may write into this rank's output: it does not share memory with inputs that they, or this rank, read later.
std::byte* ShownTensors::writable(const Call& call) const {
  const std::size_t element = size_of(call.dtype);
  const View& output = call.outputs[0];
  for (const View& input : call.inputs) {
    const bool in_place = input.contiguous() && input.at(0, element) == output.at(0, element);
    if (!in_place && extent_of(input, element).meets(extent_of(output, element))) return nullptr;
  }
  return members_.may_be_written(output.at(0, element), output.count * element) ? output.at(0, element) : nullptr;
}

void ShownTensors::withdraw(const Call& call) noexcept {
  if (shows_ == Shows::kNothing || own().written == nullptr) return;
  const std::size_t bytes = call.outputs[0].count * size_of(call.dtype);
  const Status status = members_.withdraw(own().written, bytes);
  if (status.ok()) return;
  attempt([&] {
    log(LogLevel::kWarning, "a peer may still write into the output of an operation that failed: " + status.message());
  });
}

// The memory of devices is none that other processes can read.
bool ShownTensors::can_be_read(const std::byte* begin, std::size_t bytes) const {
  const PeerArena& process = members_.process(members_.rank());
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  std::byte byte{};
  return process.read_memory(&byte, address, 1) == 0 && process.read_memory(&byte, address + bytes - 1, 1) == 0;
}

void ShownTensors::look_at(const Call& call, Shows shows) {
  shows_ = Shows::kNothing;
  if (any_) std::fill(places_.begin(), places_.end(), Place());  // else they are empty
  any_ = all_ = false;
  shows_ = shows;
  if (shows == Shows::kNothing || of_two(call) || too_small(call) || in_line(call, members_.rank())) return;
  if (shows == Shows::kInputsAndOutputs && lie_elsewhere(call)) return;
  if (!scaled(call) && input_stays(call, members_.rank(), run_of(call.inputs, size_of(call.dtype))))
    own().input = place_of(call.inputs, call);
  if (shows == Shows::kInputsAndOutputs) own().output = place_of(call.outputs, call);
  if (shows_output()) own().written = writable(call);
  any_ = shows_input() || shows_output();
}

// From so many bytes on showing what lies in the arena pays. To read it there: staging in the caches is as fast below. Where
// results are written into it, too, it is 1.5 to 2.6x as fast from 32 KiB on (4 ranks on 2 cores 1.2x), so the one turn more
// is worth it.
std::size_t ShownTensors::least() const {
  const std::size_t to_read = 2 * members_.slot_bytes();
  return shows_ == Shows::kInputsAndOutputs ? std::min<std::size_t>(to_read, 32 << 10) : to_read;
}

std::size_t ShownTensors::little() const { return std::min(members_.slot_bytes(), read_from(Op::kAllToAll, 2)) / 2; }

// Whether place_of() would find nothing, whatever lies where.
bool ShownTensors::too_small(const Call& call) const {
  const std::size_t bytes = std::max(count_of(call.inputs), count_of(call.outputs)) * size_of(call.dtype);
  return bytes < std::min(least(), read_from(call.op, members_.size()));
}

// Whether neither tensor of a reduction is in the arena: as a rule.
bool ShownTensors::lie_elsewhere(const Call& call) const {
  const auto elsewhere = [this](const View& view) { return !members_.arena_holds(view.data, 0); };
  return std::ranges::all_of(call.inputs, elsewhere) && std::ranges::all_of(call.outputs, elsewhere);
}

void ShownTensors::write_to(const Call& call, Line& line) const {
  if (in_line(call, members_.rank())) return;
  const auto word = [&](const std::optional<Staged>& place) -> std::uint64_t {
    if (!place) return 0;
    return place->mapped() ? members_.arena_offset(place->data) + 1
                           : reinterpret_cast<std::uintptr_t>(place->data) | kAddress;
  };
  const Words words{word(own().input), word(own().output) | (own().written == nullptr ? 0 : kWritten)};
  std::memcpy(line.payload, &words, sizeof(words));
}

std::optional<Staged> ShownTensors::place_told(int member, std::uint64_t word, std::size_t bytes) const {
  if (word == 0) return std::nullopt;
  if ((word & kAddress) != 0) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): of another process, never followed here
    return Staged{reinterpret_cast<const std::byte*>(word & ~kAddress), Origin::kPeer, member};
  }
  const std::byte* data = members_.address(member, word - 1, bytes);
  return data == nullptr ? std::nullopt : std::optional(Staged{data});
}

Status ShownTensors::find(const Call& call, std::uint64_t first_turn) {
  if (shows_ == Shows::kNothing || of_two(call)) return {};
  const std::size_t element = size_of(call.dtype);
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.rank() || in_line(call, member)) continue;
    Words words;
    std::memcpy(&words, members_.line(member, first_turn).payload, sizeof(words));
    Place& place = places_[static_cast<std::size_t>(member)];
    const bool written = (words.output & kWritten) != 0;
    place = {place_told(member, words.input, input_count(call, member) * element),
             place_told(member, words.output & ~kWritten, output_count(call) * element), nullptr};
    if (written && place.output) place.written = members_.address(member, (words.output & ~kWritten) - 1, 0);
    if ((words.input != 0) != place.input.has_value() || (words.output != 0) != place.output.has_value()) {
      return {Code::kSystem, members_.describe(member) + " shows no valid place of its tensor"};
    }
    any_ = any_ || words.input != 0 || words.output != 0;
  }
  all_ =
      any_ && std::all_of(places_.begin(), places_.end(), [](const Place& place) { return place.input.has_value(); });
  return {};
}

// How many elements the member's input has, as this rank's own call tells: the fingerprints have proved that it is so.
std::size_t ShownTensors::input_count(const Call& call, int member) const {
  if (is_personal(call.op)) return pairs_.sent_by(member) + pairs_.sent(member, member);
  if (call.op == Op::kAllGather) return call.outputs[static_cast<std::size_t>(member)].count;
  return count_of(call.inputs.empty() ? call.outputs : call.inputs);
}

// Whether the payload holds data instead (personal.cpp).
bool ShownTensors::in_line(const Call& call, int member) const {
  return is_personal(call.op) && pairs_.sent_by(member) * size_of(call.dtype) <= kInlineBytes;
}

bool ShownTensors::of_two(const Call& call) const { return is_personal(call.op) && pairs_.of_two(); }

void ShownTensors::read(const Staged& from, std::byte* to, std::size_t bytes) {
  const int error = members_.process(from.process).read_memory(to, reinterpret_cast<std::uintptr_t>(from.data), bytes);
  if (error == 0 || unread_ >= 0) return;
  unread_ = from.process;
  unread_error_ = error;
}

Status ShownTensors::all_read() {
  if (unread_ < 0) return {};
  const int member = std::exchange(unread_, -1);
  if (Status status = members_.diagnose({member}); !status.ok()) return status;
  const Status status = system_error("the tensor of " + members_.describe(member) + " could not be read in its process",
                                     unread_error_, "CUSTOMCCL_READ_PEERS=off on all ranks does without that.");
  return {status.code, status.message(), members_.global_rank(member)};
}

Status ShownTensors::still_shown() const {
  std::atomic_thread_fence(std::memory_order_acquire);  // after all that was read there
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.rank() || !members_.gave_up(member)) continue;
    if (Status status = members_.diagnose({member}); !status.ok()) return status;
    return {Code::kPeerLeft, members_.describe(member) + " destroyed the group within the operation",
            members_.global_rank(member)};
  }
  return {};
}

}  // namespace customccl::shm
