#pragma once

#include <vector>

#include "base/status.h"
#include "engines/operation.h"
#include "engines/packet_port.h"
#include "platform/clock.h"

namespace customccl {

enum class Step : std::uint8_t {
  kWaiting,  // nothing could be done: a peer has not come so far
  kMoved,    // something was done, more is left
  kDone,     // finished
  kFailed,   // the operation is over, and so is the group
};

// A way to carry out the collectives of one group. Never waits: it does what can be done now and returns.
// Thread rule: one thread at a time (the group's lane holds its lock); fail() by any thread. The destructor says goodbye to the
// peers; memory goes back once no peer can read it any more.
class Engine {
 public:
  virtual ~Engine() = default;

  // Begins `op`: publishes what peers need first. Called in the group's order, when the operation before is done.
  virtual Step start(Operation& op, Status& failure) = 0;
  // Drives `op` on. `failure` is written with kFailed only.
  virtual Step advance(Operation& op, Status& failure) = 0;

  // Whether another rank was last seen on the processor that this thread runs on: then looking again only keeps it from running.
  virtual bool shares_processor() const { return false; }

  // Slow path of a wait: has anybody whom `op` waits for died, left or failed?
  virtual Status diagnose(const Operation& op) = 0;
  // Ranks of the group that `op` waits for, for messages.
  virtual std::vector<int> awaited(const Operation& op) const = 0;
  // kPeerDied: the process of a rank of the group has ended; kPeerLeft: it lives, and has left the group. By any thread.
  virtual Code gone(int /*member*/) const { return Code::kOk; }

  // Gives the memory of the staging back to the system, and makes it anew. Between the two no rank starts anything that uses it; before
  // the first, every rank has done what uses it, and before the next use, every rank has come to the second.
  virtual void suspend() {}
  virtual Status resume() { return {}; }
  // What this rank's staging holds now.
  virtual std::size_t staging_bytes() const { return 0; }

  // Where this group's messages go; nullptr in a group of one.
  virtual PacketPort* packet_port() { return nullptr; }

  // Before the caller hears that `op`, whose start() was called, will not end. First abandon(): peers that read what it shows learn that they
  // cannot trust it. Then from withdraw_tensors() on no peer changes its tensors. Neither needs memory.
  virtual void abandon() noexcept {}
  virtual void withdraw_tensors(const Operation&) noexcept {}
  // Tells every peer that this group is over, and why.
  virtual void fail(const Status& why) = 0;
};

}  // namespace customccl
