#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/collective_lane.h"
#include "core/task.h"
#include "core/wait.h"
#include "engines/engine.h"
#include "engines/group_spec.h"
#include "host/bootstrap.h"
#include "platform/process.h"

namespace customccl {

class MessageLane;
struct Message;

// One group of ranks: its order, its sequence numbers, its end.
//
// Thread rule: every method by any thread. No method waits without a deadline; post() and abort() do not wait at all.
// A group fails as a whole: after the first failure every pending and every later call ends with an error that names its cause.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // Collective over all ranks of the group; done within spec.timeout or failed.
  static Status create(const GroupSpec& spec, Bootstrap& bootstrap, std::shared_ptr<Communicator>& out);
  // A group that has met nobody and refuses every call with `why`, a whole sentence.
  static std::shared_ptr<Communicator> unconnected(const GroupSpec& spec, const std::string& why);
  ~Communicator();

  // Carries `call` out on this thread. `source`: wanted of a recv, the rank in the group that its message came from.
  [[gnu::hot]] Status run(const Call& call, std::int32_t* source = nullptr);
  // The same while the ranks are in step: true, and `ended` tells of it. Else returns false, and a task of `maker` goes on with the
  // call, or has failed. It completes whether or not anybody waits for it.
  [[gnu::hot]] bool begin(const Call& call, Ended& ended, TaskMaker& maker);
  // Takes `task` in and returns. It completes whether or not anybody waits for it.
  void post(const std::shared_ptr<Task>& task);
  // Waits until `task` is done or `limit` passed (then false, and the task goes on).
  bool wait(Task& task, Nanos limit);
  // What to say when wait() returned false.
  std::string still_waiting(const Task& task, Nanos limit) const;
  // Whether `task` is done, after an attempt to move it.
  bool poll(Task& task);

  // Waits up to `limit` for a parcel (core/parcels.cpp); when that passes (kTimeout, `in_vain`) the group goes on, and nothing is lost.
  // Between looks `interrupted` is asked whether to give up (kAborted).
  Status receive_parcel(const Call& call, Nanos limit, bool (*interrupted)(), std::shared_ptr<Message>& out,
                        bool* in_vain = nullptr);
  // Carries out a recv for the rest of a large parcel. `interrupted` is asked between looks until it says so: the rest comes all the same.
  Status fetch(const Call& call, std::shared_ptr<Message> parcel, bool (*interrupted)() = nullptr);
  // Of what was received nothing was looked at: the next recv gets it, before all that has come since.
  void give_back(Message&& message);
  // The source of the message that a recv like this would get now, or -1, and its size.
  int probe(const Call& call, std::uint64_t& bytes);
  std::size_t parcel_limit() const;
  // Drives what was posted here until nothing is left; false: `limit` passed before.
  bool drain(Nanos limit);

  // Collective (core/suspension.cpp). When everything issued before is done on all ranks, gives the memory of the group's staging back to the
  // system. Until resume() nothing is taken in; messages taken in before go on.
  Status suspend();
  // Collective: makes the memory anew. kSystem: there is no room for it, nothing was sent, and resume() may be called again.
  Status resume();
  bool suspended() const { return suspended_.load(std::memory_order_acquire); }
  std::size_t staging_bytes() const { return inherited() ? 0 : collectives_->staging_bytes(); }

  // Both need no memory; without any, why they were called is not told. Destructors close, too.
  // Ends the group on all ranks. The first reason wins.
  void abort(std::string_view why) noexcept;
  // Says goodbye to the peers. Pending calls end with an error that gives this reason.
  void close(std::string_view why = "the group was destroyed on this rank") noexcept;

  // Whether this process is a forked child of the one that made it, where every call is refused.
  bool inherited() const { return generation_ != fork_generation(); }

  const GroupSpec& spec() const { return spec_; }
  std::uint64_t sequence() const { return collectives_->issued(); }
  Nanos limit_of(const Call& call) const {
    return call.timeout.count() > 0 ? call.timeout : Nanos(timeout_.load(std::memory_order_relaxed));
  }
  void set_timeout(Nanos timeout) { timeout_.store(timeout.count(), std::memory_order_relaxed); }
  // Ok while the group works, else why it does not.
  Status health() const;
  // kPeerDied, or kPeerLeft of one that lives: `member` takes part in nothing any more. kOk also where this is not known.
  Code gone(int member) const;

  // For the lanes. What is said: core/explanations.cpp.
  void fail(const Status& why);
  Status timed_out(const std::vector<int>& awaited) const;
  Status explain(const Task& task, const Status& why) const noexcept;
  Status refuse(const Task& task) const noexcept;
  int global_rank(int member) const;
  // That at which threads sleep that wait for this group.
  Doorbell& bell() const { return bell_; }

 private:
  Communicator(GroupSpec spec, std::unique_ptr<Engine> engine, std::uint64_t first_number, bool processor_each,
               Doorbell& bell);
  [[gnu::cold, gnu::noinline]] Status refuse_forked(const Call& call) const;
  [[gnu::hot]] Status run_message(const Call& call, std::int32_t* source);
  [[gnu::noinline]] Status run_message_on(const Call& call, Lane::Begun begun, std::int32_t* source);
  [[gnu::noinline]] Status run_on(const Operation& op, Lane::Begun begun, Status&& failure);
  // Sees to it that `task` completes.
  void look_after(const Task& task, Lane& lane);
  Lane& lane_of(const Call& call) const;
  // Every so often in a long wait; `told`: when the log last heard of it, counted like the task's time.
  void drive_slowly(Lane& lane, const Task& task, Nanos& told) noexcept;
  void log_waiting(Lane& lane, const Task& task, Nanos& told) const;
  // "recv #3 from rank 7"
  std::string describe_call(const Task& task) const;
  int looks() const;
  std::string list(const std::vector<int>& members) const;
  // Until the task is done, or `limit` has passed.
  void wait_for(Lane& lane, Task& task, const Deadline* limit = nullptr);
  void end(const Status& why, bool leave);
  Status meet_for(SuspensionStep step);

  GroupSpec spec_;
  std::uint64_t generation_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<CollectiveLane> collectives_;
  std::unique_ptr<MessageLane> messages_;
  Doorbell& bell_;
  SpinBudget spin_;
  std::atomic<std::int64_t> timeout_;
  mutable std::mutex failure_mutex_;
  Status failure_;
  std::atomic<bool> failed_{false};
  std::mutex suspension_mutex_;
  std::atomic<bool> suspended_{false};
  std::string unconnected_;  // why, if it is
};

}  // namespace customccl
