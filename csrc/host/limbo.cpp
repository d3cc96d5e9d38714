#include "host/limbo.h"

#include <list>
#include <mutex>

#include "host/keeper.h"

namespace customccl {

namespace {

struct Departed {
  std::vector<Block> blocks;
  std::function<bool()> unreadable;
  std::uint64_t generation;
};

std::mutex limbo_mutex;
auto& departed = *new std::list<Departed>();  // leaked on purpose (no static destructors)

}  // namespace

void bury(std::vector<Block> blocks, std::function<bool()> unreadable) {
  {
    const std::lock_guard lock(limbo_mutex);
    departed.push_back({std::move(blocks), std::move(unreadable), fork_generation()});
  }
  if (!reclaim_limbo()) wake_keeper();
}

bool reclaim_limbo() {
  HostArena* arena = HostArena::existing();
  if (arena == nullptr) return true;
  const std::lock_guard lock(limbo_mutex);
  departed.remove_if([arena](const Departed& group) {
    if (group.generation != fork_generation()) return true;  // the parent's, not ours
    if (!group.unreadable()) return false;
    for (const Block& block : group.blocks) arena->release(block);
    return true;
  });
  return departed.empty();
}

}  // namespace customccl
