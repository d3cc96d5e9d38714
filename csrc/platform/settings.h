#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "platform/clock.h"

// Every environment variable of the library: read once, typed, documented. Defaults, limits and meanings stand in one
// table in settings.cpp; docs/settings.md is made from it.

namespace customccl {

struct Settings {
  std::size_t arena_bytes;     // CUSTOMCCL_ARENA_BYTES: address space reserved per process for shared memory (sparse)
  std::size_t slot_bytes;      // CUSTOMCCL_SLOT_BYTES: one staging slot of a large operation
  std::size_t one_shot_bytes;  // CUSTOMCCL_ONE_SHOT_BYTES: every rank reduces everything up to this / ranks
  std::size_t staging_budget;  // CUSTOMCCL_STAGING_BUDGET: staging of all groups together; beyond it slots shrink
  std::size_t mailbox_bytes;   // CUSTOMCCL_MAILBOX_BYTES: ring per ordered pair for send and recv
  Nanos spin;                  // CUSTOMCCL_SPIN_US: longest spin before yielding, when ranks have a processor each
  Nanos yield;                 // CUSTOMCCL_YIELD_US: how long to yield before sleeping
  bool progress_thread;        // CUSTOMCCL_PROGRESS_THREAD: 0 = work moves only in wait(), polls and get_future()
  std::string store_policy;    // CUSTOMCCL_STORE_POLICY: auto, plain or streaming
  // CUSTOMCCL_READ_PEERS: inputs of so many bytes per peer are read in their process; nothing: where that is faster
  std::optional<std::size_t> read_peers;
  std::string isa;      // CUSTOMCCL_ISA: auto, baseline, avx2 or avx512
  std::string log;      // CUSTOMCCL_LOG: off, error, warning, info or debug
  std::string disable;  // CUSTOMCCL_DISABLE: comma list of mechanisms to do without (memfd, membarrier, ...), for tests
};

// Read from the environment at the first call; a value that is not understood keeps its default and is named in the
// log.
const Settings& settings();

// Whether CUSTOMCCL_DISABLE names `mechanism`.
bool disabled(std::string_view mechanism);

// For `info` and docs/settings.md.
struct SettingInfo {
  std::string_view variable;
  std::string_view meaning;
  std::string default_value;
  std::string value;
};
std::span<const SettingInfo> describe_settings();

}  // namespace customccl
