#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace customccl {

using Id128 = std::array<std::uint64_t, 2>;

Id128 random_id();  // getrandom(2)
std::string to_hex(const Id128&);

// How many forks lie between the process that first called watch_for_fork() and this one: 0 there, 1 in its child, ...
// (pthread_atfork). Groups remember the value they were made under: a child must not touch its parent's groups.
void watch_for_fork();
extern std::atomic<std::uint64_t> fork_count;
inline std::uint64_t fork_generation() { return fork_count.load(std::memory_order_relaxed); }

// In one word, which ranks tell each other: what does not belong into a word is replaced.
std::string host_name();

// Of this start of the machine; kUnknownBoot where the system does not tell.
inline constexpr const char* kUnknownBoot = "unknown";
const std::string& boot_id();

// A moment as one word that every process of this host understands.
std::string moment_now();
// Whether `moment` lies before the start of this process. False when that cannot be known, as of another host's.
bool before_this_process(const std::string& moment);

}  // namespace customccl
