#include "engines/shm/shown_tensors.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "engines/scratch.h"

namespace customccl::shm {

namespace {

// In the payload of a line: 0, or one more than the arena offset of the first element.
struct Offsets {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};
static_assert(sizeof(Offsets) <= kInlineBytes);

// Where the elements of all views lie one after the other, their address; else nullptr.
const std::byte* start_of(std::span<const View> views, std::size_t element) {
  if (views.empty() || !views[0].contiguous()) return nullptr;
  const std::byte* start = views[0].at(0, element);
  std::size_t before = 0;
  for (const View& view : views) {
    if (!view.contiguous() || view.at(0, element) != start + before * element) return nullptr;
    before += view.count;
  }
  return start;
}

// How many elements the member's input has, as this rank's own call tells: the fingerprints have proved that it is so.
std::size_t input_count(const Call& call, int member) {
  if (call.op == Op::kAllGather) return call.outputs[static_cast<std::size_t>(member)].count;
  return count_of(call.inputs.empty() ? call.outputs : call.inputs);
}

}  // namespace

void ShownTensors::look_at(const Call& call, Shows shows) {
  shows_ = shows;
  any_ = false;
  own() = Place();
  if (shows == Shows::kNothing) return;
  std::fill(places_.begin(), places_.end(), Place());
  const std::size_t element = size_of(call.dtype);
  const std::size_t least = 2 * members_.slot_bytes();  // below, staging in the caches is as fast
  const auto within_arena = [&](std::span<const View> views) -> const std::byte* {
    const std::size_t bytes = count_of(views) * element;
    const std::byte* start = bytes < least ? nullptr : start_of(views, element);
    return start != nullptr && members_.arena_holds(start, bytes) ? start : nullptr;
  };
  if (!scaled(call)) own().input = within_arena(call.inputs);
  if (shows == Shows::kInputsAndOutputs) own().output = within_arena(call.outputs);
  any_ = own().input != nullptr || own().output != nullptr;
}

void ShownTensors::write_to(Line& line) const {
  const auto offset = [&](const std::byte* place) { return place == nullptr ? 0 : members_.arena_offset(place) + 1; };
  const Offsets offsets{offset(own().input), offset(own().output)};
  std::memcpy(line.payload, &offsets, sizeof(offsets));
}

Status ShownTensors::find(const Call& call, std::uint64_t first_turn) {
  if (shows_ == Shows::kNothing) return {};
  const std::size_t element = size_of(call.dtype);
  for (int member = 0; member < members_.size(); ++member) {
    if (member == members_.rank()) continue;
    Offsets offsets;
    std::memcpy(&offsets, members_.line(member, first_turn).payload, sizeof(offsets));
    Place& place = places_[static_cast<std::size_t>(member)];
    const auto address = [&](std::uint64_t offset, std::size_t count) -> const std::byte* {
      return offset == 0 ? nullptr : members_.address(member, offset - 1, count * element);
    };
    place = {address(offsets.input, input_count(call, member)), address(offsets.output, count_of(call.outputs))};
    if ((offsets.input != 0) != (place.input != nullptr)) {
      return {Code::kSystem, members_.describe(member) + " shows no valid place of its tensor"};
    }
    any_ = any_ || offsets.input != 0 || offsets.output != 0;
  }
  return {};
}

}  // namespace customccl::shm
