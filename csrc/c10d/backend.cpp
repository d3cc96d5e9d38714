#include "c10d/backend.h"

#include "c10d/errors.h"
#include "c10d/launch.h"
#include "c10d/python_lock.h"
#include "c10d/reconfiguration.h"
#include "c10d/timeout_check.h"

namespace customccl::torch_shim {

CustomBackend::CustomBackend(std::shared_ptr<Communicator> group, StorePtr store,
                             c10::intrusive_ptr<CustomOptions> options)
    : Backend(group->spec().rank, group->spec().size),
      group_(std::move(group)),
      reconfiguration_(std::make_shared<Reconfiguration>()),
      store_(std::move(store)),
      options_(std::move(options)),
      logs_flights_(FlightLog::get().on()),
      flight_group_(logs_flights_ ? FlightLog::get().add_group() : 0),
      watched_(logs_flights_) {}

CustomBackend::~CustomBackend() { group_->close(); }

const CustomBackend::FinishedWorks& CustomBackend::finished_works() {
  static const FinishedWorks& works = *new FinishedWorks([] {  // never destroyed
    FinishedWorks made;
    for (std::size_t i = 0; i < kKinds; ++i) made[i] = c10::make_intrusive<DoneWork>(static_cast<::c10d::OpType>(i));
    return made;
  }());
  return works;
}

void refuse_list(Op op, const char* what, std::size_t size) {
  TORCH_CHECK_VALUE(false, "customccl: ", name(op), " takes one ", what, " per call, got ", size);
}

void CustomBackend::fail(const Status& status) {
  stay_if_python_ends();
  if (status.code != Code::kInvalidArgument) abort_hooks_->run();
  throw_status(status);
}

void CustomBackend::abort() {
  abort_hooks_->run();
  group_->abort("");
}

CustomBackend::WorkPtr CustomBackend::begin(PreparedCall&& prepared, Label label, const Held& held) {
  // Where the ranks are in step it is over before it needs a task, and its Work needs no more than the outputs.
  class Maker final : public TaskMaker {
   public:
    Maker(PreparedCall& prepared, Nanos limit, const Held& held, std::optional<Clock::time_point> begun)
        : prepared_(prepared), limit_(limit), held_(held), begun_(begun) {}
    std::shared_ptr<Task> make() override {
      return made_ = std::make_shared<TensorTask>(std::move(prepared_), limit_, held_.inputs, held_.outputs,
                                                  begun_.value_or(Clock::now()));
    }
    const std::shared_ptr<TensorTask>& made() const { return made_; }

   private:
    PreparedCall& prepared_;
    Nanos limit_;
    const Held& held_;
    std::optional<Clock::time_point> begun_;
    std::shared_ptr<TensorTask> made_;
  };
  const Nanos limit = group_->limit_of(prepared.call());
  std::optional<Clock::time_point> begun;
  if (C10_UNLIKELY(timed())) begun = Clock::now();
  Maker maker(prepared, limit, held, begun);
  c10::intrusive_ptr<DoneWork> done;
  const auto make_done = [&] { done = c10::make_intrusive<DoneWork>(label.type, limit, held.results(label)); };
  // A receiver has time before its message comes, and none after; who has something to send is the sooner done without.
  const bool receives = prepared.call().op == Op::kRecv;
  if (receives) make_done();
  Ended ended;
  if (!group_->begin(prepared.sealed(), ended, maker)) return make_work({maker.made()}, label, held, true, {});
  std::optional<Nanos> took;
  if (C10_UNLIKELY(begun.has_value())) took = Clock::now() - *begun;
  if (!receives) make_done();
  done->end(ended, took);
  return done;
}

CustomBackend::WorkPtr CustomBackend::launch_all(std::vector<PreparedCall> calls, bool async, Label label,
                                                 const Held& held) {
  if (calls.empty()) return finished_work(label.type);
  PreparedCall::copy_inputs_on_outputs_of_others(calls);
  return post_all(calls, async, label, held);
}

CustomBackend::WorkPtr CustomBackend::post_all(std::span<PreparedCall> calls, bool async, Label label,
                                               const Held& held) {
  WorkPtr work;
  const auto body = [&] {
    TimeoutExtensions::Grant grant;
    if (C10_UNLIKELY(watched())) grant = extensions_->grant();
    // One list: each call's own would be as long as there are calls.
    const auto memory = std::make_shared<const TensorTask::Memory>(TensorTask::memory_of(held.inputs, held.outputs));
    std::vector<std::shared_ptr<TensorTask>> tasks;
    for (PreparedCall& prepared : calls) {
      if (C10_UNLIKELY(grant.extra.count() > 0)) extend(prepared.call(), grant);
      tasks.push_back(post(std::move(prepared), memory, label.type));
    }
    work = make_work(std::move(tasks), label, held, async, std::move(grant));
  };
  if (C10_UNLIKELY(at::hasCallbacks())) {
    with_comms(label, held, async, body);
  } else {
    body();
  }
  return work;
}

std::shared_ptr<TensorTask> CustomBackend::post(PreparedCall&& prepared,
                                                const std::shared_ptr<const TensorTask::Memory>& memory,
                                                ::c10d::OpType type) {
  const Nanos limit = group_->limit_of(prepared.call());
  auto task = std::make_shared<TensorTask>(std::move(prepared), limit, at::TensorList(), at::TensorList());
  task->keep(memory);
  if (C10_UNLIKELY(watched()) && hook_->active()) hook_->follow(task, type);
  group_->post(task);
  return task;
}

CustomBackend::WorkPtr CustomBackend::make_work(std::vector<std::shared_ptr<TensorTask>> tasks, Label label,
                                                const Held& held, bool async, TimeoutExtensions::Grant grant) {
  {
    const std::lock_guard lock(coalescing_mutex_);
    if (coalescing_) coalesced_.insert(coalesced_.end(), tasks.begin(), tasks.end());
  }
  Audience audience;
  if (C10_UNLIKELY(watched())) audience = watch(*tasks.front(), label, held, std::move(grant));
  // What is over before its Work is known to those who listen for keys tells them its time when they look at it.
  audience.timed = timed() || audience.key != 0;
  auto work = c10::make_intrusive<TaskWork>(group_, std::move(tasks), label, held.inputs.vec(),
                                            held.results(label).vec(), std::move(audience));
  if (!async) work->wait(kNoTimeout);
  return work;
}

void CustomBackend::startCoalescing() {
  const std::lock_guard lock(coalescing_mutex_);
  coalescing_ = true;
}

CustomBackend::WorkPtr CustomBackend::endCoalescing() {
  std::vector<std::shared_ptr<TensorTask>> tasks;
  {
    const std::lock_guard lock(coalescing_mutex_);
    coalescing_ = false;
    tasks.swap(coalesced_);
  }
  if (tasks.empty()) return finished_work(::c10d::OpType::COALESCED);
  return c10::make_intrusive<TaskWork>(group_, std::move(tasks),
                                       Label{::c10d::OpType::COALESCED, "customccl:coalesced"}, Tensors(), Tensors(),
                                       Audience{.timed = timed()});
}

void CustomBackend::registerOnCompletionHook(std::function<void(std::shared_ptr<::c10d::WorkInfo>)>&& hook) {
  TORCH_CHECK(!hook_->active(), "customccl: this group has a completion hook already");
  onCompletionHook_ = hook;  // what makes destroy_process_group wait for pending works
  hook_->set(std::move(hook));
  watched_.store(true, std::memory_order_release);
}

void CustomBackend::waitForPendingWorks() {
  hook_->wait_for_pending(*group_);
  stay_if_python_ends();
}

#ifdef C10D_BACKEND_HAS_HOOKS
void CustomBackend::registerAbortHook(std::int64_t id, ::c10d::AbortHook hook) {
  abort_hooks_->add(id, std::move(hook));
  watched_.store(true, std::memory_order_release);
}
#endif

#if CUSTOMCCL_TORCH_HAS_COMPLETION_HOOKS
void CustomBackend::registerCompletionHook(std::int64_t id, ::c10d::CompletionHook hook) {
  success_hooks_->add(id, [hook = std::move(hook)](std::uint64_t key, Nanos took) { hook({key, milliseconds(took)}); });
  watched_.store(true, std::memory_order_release);
}
#endif

void CustomBackend::addEphemeralTimeout(const std::chrono::milliseconds& timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "customccl: a timeout can be extended by a positive time, not by ",
                    timeout.count(), " ms");
  extensions_->add(to_limit(timeout));
  watched_.store(true, std::memory_order_release);
}

void CustomBackend::setTimeout(std::chrono::milliseconds timeout) {
  check_timeout(timeout);
  group_->set_timeout(to_limit(timeout));
  options_->timeout = timeout;
}

::c10d::ErrorType CustomBackend::getError() {
  switch (group_->health().code) {
    case Code::kOk:
    case Code::kInvalidArgument:
    case Code::kClosed: return ::c10d::ErrorType::SUCCESS;
    case Code::kTimeout: return ::c10d::ErrorType::TIMEOUT;
    case Code::kPeerDied:
    case Code::kPeerLeft: return ::c10d::ErrorType::REMOTE_ERROR;
    case Code::kMismatch:
    case Code::kAborted:
    case Code::kUnreachable:
    case Code::kSystem: break;
  }
  return ::c10d::ErrorType::COMM_ERROR;
}

}  // namespace customccl::torch_shim
