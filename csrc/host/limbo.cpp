#include "host/limbo.h"

#include <list>
#include <mutex>

#include "base/attempt.h"
#include "host/keeper.h"
#include "platform/once_per_process.h"

namespace customccl {

namespace {

struct Departed {
  std::vector<Block> blocks;
  std::function<bool()> unreadable;
};

struct Limbo {
  std::mutex mutex;
  std::list<Departed> departed;
};

}  // namespace

void bury(std::vector<Block> blocks, std::function<bool()> unreadable) {
  {
    auto& limbo = once_per_process<Limbo>();
    const std::lock_guard lock(limbo.mutex);
    limbo.departed.push_back({std::move(blocks), std::move(unreadable)});
  }
  bool empty = false;
  attempt([&] { empty = reclaim_limbo(); });  // what there is no memory for waits on
  if (!empty) wake_keeper();
}

bool reclaim_limbo() {
  HostArena* arena = HostArena::existing();
  if (arena == nullptr) return true;
  auto& limbo = once_per_process<Limbo>();
  const std::lock_guard lock(limbo.mutex);
  limbo.departed.remove_if([arena](Departed& group) {
    if (!group.unreadable()) return false;
    // What is given back is forgotten at once: the next may find no memory for it.
    for (; !group.blocks.empty(); group.blocks.pop_back()) arena->release(group.blocks.back());
    return true;
  });
  return limbo.departed.empty();
}

}  // namespace customccl
