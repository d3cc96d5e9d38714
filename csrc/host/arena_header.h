#pragma once

#include <cstdint>

#include "host/doorbell.h"
#include "platform/life_word.h"
#include "platform/process.h"

namespace customccl {

// The first page of every process's arena: who it is, whether it lives, how to wake it.
struct ArenaHeader {
  static constexpr std::uint64_t kMagic = 0x6c63636d6f747375;  // "ustomccl"
  static constexpr std::uint32_t kVersion = 3;                 // of everything that lies in shared memory

  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  Id128 id{};
  std::uint64_t address = 0;  // of this header in its own process
  alignas(128) LifeWord life;
  Doorbell bell;
};

}  // namespace customccl
