#pragma once

#include <atomic>
#include <memory>

#include "base/call.h"
#include "base/status.h"
#include "engines/operation.h"
#include "platform/clock.h"

namespace customccl {

struct Message;

// The completion of one call: pending, then done exactly once, whatever happens (success, mismatch, timeout, death, abort).
//
// A task on the stack serves a call that its thread carries to the end; an asynchronous one is held by a shared_ptr, which the
// queue shares until the task is done. A call that is over at once never becomes one (Communicator::begin).
// Thread rule: done() and wait by anyone; the rest by whoever holds the lane's lock.
class Task {
 public:
  Task(const Call& call, Nanos limit) : call_(call), deadline_(Deadline::stopped(limit)) { operation_.call = &call_; }
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  bool done() const { return done_.load(std::memory_order_acquire); }
  // Valid once done.
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  const Call& call() const { return call_; }
  Call& call() { return call_; }
  Operation& operation() { return operation_; }
  const Operation& operation() const { return operation_; }
  // What has begun without it.
  void take_over(const Operation& begun) {
    operation_ = begun;
    operation_.call = &call_;
  }
  const Deadline& deadline() const { return deadline_; }
  // When it was done; for asynchronous tasks.
  Clock::time_point ended() const { return ended_; }
  // Where a received message came from (rank in the group), once done.
  int source() const { return source_; }
  void set_source(int source) { source_ = source; }
  // A parcel: what a recv got, once done. Given before posting: the large parcel whose rest is to be fetched.
  const std::shared_ptr<Message>& parcel() const { return parcel_; }
  void set_parcel(std::shared_ptr<Message> parcel) { parcel_ = std::move(parcel); }

  // A task of suspend() or resume(): its lane takes it in though it is paused, and nothing behind it.
  bool pauses() const { return pauses_; }
  void set_pauses() { pauses_ = true; }

  // Called once, after done() has become true, with no lock held. Not for tasks on the stack.
  virtual void completed() {}

 private:
  friend class Lane;
  friend class Finished;

  Call call_;
  Operation operation_;
  Deadline deadline_;  // its lane starts it when it does not end the task at once
  Status status_;
  Clock::time_point ended_{};
  int source_ = -1;
  bool pauses_ = false;
  std::shared_ptr<Message> parcel_;
  std::atomic<bool> done_{false};
  std::shared_ptr<Task> keep_alive_;  // while queued, for asynchronous tasks
  Task* next_ = nullptr;              // in its lane's queue, or among those that are done
  // Among those that its lane holds.
  Task* held_before_ = nullptr;
  Task* held_after_ = nullptr;
};

// Makes the task that goes on with a call which was not over at once.
class TaskMaker {
 public:
  virtual std::shared_ptr<Task> make() = 0;

 protected:
  ~TaskMaker() = default;
};

}  // namespace customccl
