#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "host/peer_arena.h"
#include "platform/cpu.h"

namespace customccl::shm {

// What a rank tells its peers about itself through the bootstrap, as text.
struct MemberRecord {
  ArenaAddress arena;
  std::uint64_t block_offset = 0;     // of its control block in its arena
  std::uint64_t presence_offset = 0;  // of its presence word there (host/presence.h)
  std::uint64_t presence = 0;         // what the word holds while the group lives, so an old record is recognised
  std::uint64_t slot_bytes = 0;       // staging slot it proposes; the smallest wins
  std::uint64_t ring_bytes = 0;       // message ring it proposes, likewise
  std::uint64_t one_shot_bytes = 0;   // up to which reductions take one shot (select.cpp), likewise
  int size = 0;
  CpuSet cpus;

  std::string to_text() const;
  // What a rank that gave up shows instead: from_text() makes an error of it, with the same code and culprit.
  static std::string failure(const Status& why);
  static bool tells_failure(const std::string& text);
  static Status from_text(const std::string& text, MemberRecord& out);
};

}  // namespace customccl::shm
