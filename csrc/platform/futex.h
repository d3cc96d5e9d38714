#pragma once

#include <atomic>
#include <cstdint>

#include "platform/clock.h"

namespace customccl {

// Sleeps while `word` holds `expected`, at most `timeout`; may wake without reason. Works between processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Nanos timeout);
void futex_wake_all(std::atomic<std::uint32_t>& word);

// A full memory barrier in every running thread of every process that registered: lets the rare sleeper pay for the
// store-load ordering, so that the frequent publisher needs no fence. False when the kernel does not offer it.
bool register_process_barrier();
bool process_barrier();

}  // namespace customccl
