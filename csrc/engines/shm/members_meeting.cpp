#include "engines/shm/members.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "engines/shm/geometry.h"
#include "engines/shm/member_record.h"
#include "host/limbo.h"
#include "platform/log.h"
#include "platform/settings.h"

// How the ranks of a group find each other, and what they agree on.

namespace customccl::shm {

namespace {

// Groups share the budget: once half of it is in use, new groups get less. Never below 64 KiB.
std::size_t within_budget(const HostArena& arena, std::size_t bytes) {
  const std::size_t used = arena.bytes_in_use();
  for (std::size_t limit = settings().staging_budget / 2; used > limit && bytes > (64 << 10); limit += limit / 2)
    bytes /= 2;
  return bytes;
}

// At least two cache lines for every member, so that half a slot has one (Staging::chunk_bytes).
std::size_t proposed_slot_bytes(const HostArena& arena, int size) {
  const std::size_t slot = within_budget(arena, settings().slot_bytes);
  return std::max(slot / kCacheLine, 2 * static_cast<std::size_t>(size)) * kCacheLine;
}

// A rank has a ring to every other rank that it talks to: in a large group they are smaller, not below 256 KiB.
std::size_t proposed_ring_bytes(const HostArena& arena, int size) {
  constexpr std::size_t kTogether = 16 << 20;
  std::size_t ring = within_budget(arena, settings().mailbox_bytes);
  while (ring > (256 << 10) && ring * static_cast<std::size_t>(size - 1) > kTogether) ring /= 2;
  return std::max<std::size_t>(ring / kCacheLine * kCacheLine, 4096);
}

}  // namespace

Status Members::meet(const GroupSpec& spec, Bootstrap& bootstrap, const Deadline& deadline,
                     std::unique_ptr<Members>& out) {
  if (static_cast<std::size_t>(spec.size) > kMaxMembers) {
    return {Code::kInvalidArgument,
            "ranks of one host share memory in groups of at most " + std::to_string(kMaxMembers)};
  }
  std::unique_ptr<Members> members(new Members(spec));
  std::string own;
  const Status prepared = members->prepare(own);
  if (!prepared.ok()) own = "no shared memory: " + prepared.message();  // the others shall not wait for a record
  Status told = bootstrap.put(key_of_rank(spec.rank), own);
  if (!prepared.ok()) return {Code::kUnreachable, prepared.message(), members->global_rank(spec.rank)};
  if (!told.ok()) return told.code == Code::kSystem ? members->refused_here("", told) : told;
  for (int member = 0; member < spec.size; ++member) {
    // A store is asked as little as possible: each question takes it a tenth of what the whole meeting takes.
    Status status =
        member == spec.rank ? members->learn(member, own, deadline) : members->find(member, bootstrap, deadline);
    if (status.ok()) continue;
    members->fail(status);
    // Who comes later may find this process gone, and shall name the one that was first.
    bootstrap.replace(key_of_rank(spec.rank), MemberRecord::failure(status));
    return status;
  }
  const double limit = cgroup_cpu_limit();
  members->enough_processors_ = static_cast<int>(members->cpus_.count()) >= spec.size;
  members->processor_each_ = members->enough_processors_ && (limit == 0 || limit >= static_cast<double>(spec.size));
  members->tell_whether_memory_is_read();
  members->expect_withdrawal(deadline);
  out = std::move(members);
  return {};
}

void Members::expect_withdrawal(const Deadline& patience) {
  auto gone =
      std::make_shared<const std::function<bool()>>([peers = peers_now(), patience] { return peers.gone(patience); });
  arena_->expect_withdrawal();
  peers_gone_ = std::move(gone);
}

// Only where it is wanted: to read in another process is a right that not every system gives, and some punish who asks for it.
void Members::tell_whether_memory_is_read() {
  const auto& wanted = settings().read_peers;
  if (wanted ? *wanted == std::numeric_limits<std::size_t>::max() : !cores_on_mesh()) return;
  const bool all =
      std::all_of(arenas_.begin(), arenas_.end(), [](const auto& arena) { return arena->memory_readable(); });
  own().reads_memory.store(all ? 1 : 0, std::memory_order_release);
}

Status Members::prepare(std::string& text) {
  if (Status status = HostArena::get(arena_); !status.ok()) return status;
  reclaim_limbo();
  generation_ = fork_generation();
  fence_ = !register_process_barrier();
  if (Status status = allocate(ControlBlock::bytes_for(spec_.size), block_); !status.ok()) return status;
  new (block_.data) ControlBlock();
  if (Status status = presence_.begin(*arena_); !status.ok()) return status;
  const auto size = static_cast<std::size_t>(spec_.size);
  blocks_.assign(size, nullptr);
  arenas_.resize(size);
  pids_.resize(size);
  readers_.resize(size);
  slot_bytes_ = proposed_slot_bytes(*arena_, spec_.size);
  ring_bytes_ = proposed_ring_bytes(*arena_, spec_.size);
  one_shot_bytes_ = settings().one_shot_bytes;

  MemberRecord record;
  if (Status status = ArenaAddress::own(record.arena); !status.ok()) return status;
  record.block_offset = block_.offset;
  record.presence_offset = presence_.offset();
  record.presence = presence_.number();
  record.slot_bytes = slot_bytes_;
  record.ring_bytes = ring_bytes_;
  record.one_shot_bytes = one_shot_bytes_;
  record.size = spec_.size;
  record.cpus = affinity();
  text = record.to_text();
  return {};
}

// What the system refuses, it refuses to this process, whoever that was looking for.
Status Members::refused_here(const std::string& when, const Status& why) const {
  return {why.code, when + why.message(), global_rank(spec_.rank)};
}

Status Members::look_up(int member, Bootstrap& bootstrap, const Deadline& deadline, std::string& text) const {
  Status status = bootstrap.get(key_of_rank(member), deadline, text);
  if (status.ok()) return status;
  const std::string who = "global rank " + std::to_string(global_rank(member));
  if (status.code == Code::kSystem) return refused_here("looking for " + who + ": ", status);
  return {status.code, who + " did not join: " + status.message(),
          status.culprit >= 0 ? status.culprit : global_rank(member)};
}

Status Members::find(int member, Bootstrap& bootstrap, const Deadline& deadline) {
  const std::string key = key_of_rank(member);
  std::string text;
  if (Status status = look_up(member, bootstrap, deadline, text); !status.ok()) return status;
  for (;;) {
    Status status = learn(member, text, deadline);
    if (status.ok()) return status;
    // Who is gone or has failed may have begun anew, elsewhere: get_other() asks for that before it says that nothing else came. A rank
    // says that it failed before it counts on, and what lies here is of one attempt: one that is not ahead now had failed for good
    // when this rank looked. One that is ahead never comes back, so this rank leaves, too, and who waits for it follows.
    const bool told = MemberRecord::tells_failure(text);
    if (!told && status.code != Code::kPeerDied && status.code != Code::kPeerLeft) return status;
    const bool outdated = bootstrap.outdated(key);
    if (outdated) {
      log(LogLevel::kWarning, "rank " + std::to_string(global_rank(spec_.rank)) + ", group \"" + spec_.name + "\": " +
                                  status.message() + ". That was before this process began: another is awaited.");
    }
    std::string later;
    Status other = bootstrap.get_other(key, text, outdated ? deadline : Deadline(Nanos(0)), later);
    if (!other.ok()) return other.code == Code::kAborted ? other : status;
    text = std::move(later);
  }
}

Status Members::learn(int member, const std::string& text, const Deadline& deadline) {
  const auto index = static_cast<std::size_t>(member);
  const std::string who = "global rank " + std::to_string(global_rank(member));
  MemberRecord record;
  Status status = MemberRecord::from_text(text, record);
  if (status.ok()) {
    status = attach(record.arena, deadline, arenas_[index]);
    if (record.size != spec_.size && status.code != Code::kPeerDied) {
      status = {Code::kMismatch, "it makes a group of " + std::to_string(record.size) + " ranks, rank " +
                                     std::to_string(global_rank(spec_.rank)) + " one of " + std::to_string(spec_.size)};
    }
    if (status.code == Code::kSystem) return refused_here("on the way to " + who + ": ", status);
  }
  if (status.ok()) {
    auto* block = arenas_[index]->at(record.block_offset, ControlBlock::bytes_for(spec_.size));
    const std::byte* word = arenas_[index]->at(record.presence_offset, sizeof(std::uint64_t));
    if (block == nullptr || word == nullptr || !Presence::shows(word, record.presence)) {
      status = {Code::kPeerLeft, "what it left in the store belongs to an earlier group; use a fresh store or prefix"};
    } else {
      blocks_[index] = reinterpret_cast<ControlBlock*>(block);
      readers_[index] = {word, record.presence};
    }
  }
  if (!status.ok())
    return {status.code, who + ": " + status.message(), status.culprit >= 0 ? status.culprit : global_rank(member)};
  slot_bytes_ = std::min<std::size_t>(slot_bytes_, record.slot_bytes);
  ring_bytes_ = std::min<std::size_t>(ring_bytes_, record.ring_bytes);
  one_shot_bytes_ = std::min<std::size_t>(one_shot_bytes_, record.one_shot_bytes);
  cpus_ |= record.cpus;
  pids_[index] = record.arena.pid;
  identity_ = (identity_ ^ record.presence) * 0x9e3779b97f4a7c15;  // in the order of ranks
  if (member != spec_.rank) {
    peers_elsewhere_ = peers_elsewhere_ && arenas_[index]->at(0, 0) != arena_->base();
    peers_.push_back(blocks_[index]);
    peer_bells_.push_back(&arenas_[index]->bell());
  }
  return {};
}

}  // namespace customccl::shm
