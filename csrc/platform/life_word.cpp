#include "platform/life_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace customccl {
namespace {

// What the kernel reads when a thread ends: head -> node -> head, a list of one. It takes node + futex_offset for a
// futex word, and if that word holds the thread's id, replaces the id by FUTEX_OWNER_DIED.
//
// The node lies in private memory and only the word is shared, which the offset allows as it is signed and of pointer
// width: a peer that scribbles over the arena can spoil the word but never redirect what the kernel writes.
//
// The C library keeps a list of its own for every thread (for robust pthread mutexes). A thread has one list, so ours
// takes its place.
struct Anchor {
  robust_list_head head{};
  robust_list node{};
  Anchor* older = nullptr;
};

// Anchors stay for good: the kernel reads them after the thread's last instruction, when thread-local memory may be
// gone. Chained so that leak checkers see them as reachable. One per thread that ever adopts, which is one or two per
// process.
std::atomic<Anchor*> all_anchors{nullptr};
thread_local Anchor* own_anchor = nullptr;

Anchor& anchor_of_this_thread() {
  if (own_anchor == nullptr) {
    own_anchor = new Anchor;
    own_anchor->older = all_anchors.load(std::memory_order_relaxed);
    while (!all_anchors.compare_exchange_weak(own_anchor->older, own_anchor, std::memory_order_relaxed)) {
    }
  }
  return *own_anchor;
}

// The kernel is asked, not a flag: a forked child inherits our variables but not the list.
bool anchor_in_use() {
  robust_list_head* head = nullptr;
  std::size_t bytes = 0;
  return own_anchor != nullptr && ::syscall(SYS_get_robust_list, 0, &head, &bytes) == 0 && head == &own_anchor->head;
}

}  // namespace

bool LifeWord::adopt() {
  static_assert(sizeof(LifeWord) == sizeof(std::uint32_t) && kOwnerDied == FUTEX_OWNER_DIED &&
                kThread == FUTEX_TID_MASK);
  if (adopted() || anchor_in_use()) return false;
  Anchor& anchor = anchor_of_this_thread();
  anchor.node.next = &anchor.head.list;
  anchor.head.list.next = &anchor.node;
  anchor.head.futex_offset = reinterpret_cast<std::intptr_t>(&word_) - reinterpret_cast<std::intptr_t>(&anchor.node);
  anchor.head.list_op_pending = nullptr;
  if (::syscall(SYS_set_robust_list, &anchor.head, sizeof(anchor.head)) != 0) return false;
  // After the list, so that adopted() means guarded.
  word_.store(static_cast<std::uint32_t>(::syscall(SYS_gettid)), std::memory_order_release);
  return true;
}

}  // namespace customccl
