#pragma once

#include <ATen/record_function.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "c10d/abort_hooks.h"
#include "c10d/compat.h"
#include "c10d/completion_hook.h"
#include "c10d/flight_log.h"
#include "c10d/options.h"
#include "c10d/prepared_call.h"
#include "c10d/store_bootstrap.h"
#include "c10d/success_hooks.h"
#include "c10d/timeout_extensions.h"
#include "c10d/work.h"
#include "core/communicator.h"

namespace customccl::torch_shim {

class Reconfiguration;

// The face that torch sees: checks tensors, makes a Call, hands it to the Communicator, returns a Work.
// Synchronous calls (options.asyncOp == false) run to the end on the calling thread.
class CustomBackend final : public ::c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<::c10d::Work>;

  using StorePtr = c10::intrusive_ptr<::c10d::Store>;

  // Meets the other ranks where `keys` say; done within spec.timeout or throws. Options of another backend mean the defaults.
  // `attendance`: what ends that before.
  static c10::intrusive_ptr<CustomBackend> create(GroupKeys& keys, const GroupSpec& spec,
                                                  const c10::intrusive_ptr<::c10d::Backend::Options>& options,
                                                  const Attendance& attendance);
  // Meets nobody: refuses every operation until reconfigure().
  static c10::intrusive_ptr<CustomBackend> create_unconnected(
      const StorePtr& store, const GroupSpec& spec, const c10::intrusive_ptr<::c10d::Backend::Options>& options);
  CustomBackend(std::shared_ptr<Communicator> group, StorePtr store, c10::intrusive_ptr<CustomOptions> options);
  ~CustomBackend() override;

  const std::string getBackendName() const override { return "customccl"; }
  const std::shared_ptr<Communicator>& group() const { return group_; }
  c10::intrusive_ptr<::c10d::Backend::Options> getBackendOptions() override { return options_; }
  const c10::intrusive_ptr<CustomOptions>& options() const { return options_; }

  [[gnu::hot]] WorkPtr broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) override;
  [[gnu::hot]] WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;
  // allreduce() of one tensor, done on return: a call from Python then makes no list, no options and no Work.
  void all_reduce(const at::Tensor& tensor, const ::c10d::ReduceOp& op);
  WorkPtr allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& options) override;
  [[gnu::hot]] WorkPtr reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) override;
  [[gnu::hot]] WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const ::c10d::AllgatherOptions& options) override;
  [[gnu::hot]] WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                                       const ::c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const ::c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::AllgatherOptions& options) override;
  [[gnu::hot]] WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                              const ::c10d::GatherOptions& options) override;
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input,
                        const ::c10d::GatherOptions& options) CUSTOMCCL_OVERRIDE_SINCE_2_14;
  [[gnu::hot]] WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                               const ::c10d::ScatterOptions& options) override;
  [[gnu::hot]] WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const ::c10d::ReduceScatterOptions& options) override;
  [[gnu::hot]] WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                            const ::c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const ::c10d::ReduceScatterOptions& options) override;
  [[gnu::hot]] WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                     std::vector<std::int64_t>& input_splits,
                                     const ::c10d::AllToAllOptions& options) override;
  [[gnu::hot]] WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& options) override;
  [[gnu::hot]] WorkPtr send(Tensors& tensors, int destination, int tag) override;
  [[gnu::hot]] WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  [[gnu::hot]] WorkPtr barrier(const ::c10d::BarrierOptions& options) override;
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool wait_all_ranks) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options) override;

  // Children. Ranks are those of this group; who is not among them gets nothing. Excluded ranks of shrink() need not call it.
  using BackendPtr = c10::intrusive_ptr<::c10d::Backend>;
  using OptionsPtr = c10::intrusive_ptr<::c10d::Backend::Options>;
  bool supportsSplitting() const override { return true; }
  BackendPtr split(const StorePtr& store, const std::vector<int>& ranks, const OptionsPtr& options) override;
  BackendPtr merge(const StorePtr& store, const OptionsPtr& options, const int& rank, const int& size) override;
  bool supportsShrinking() const override { return true; }
  BackendPtr shrink(const std::vector<std::int64_t>& ranks_to_exclude, int flags, const OptionsPtr& options) override;

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  // Other members for this group (backend_reconfigure.cpp). While it runs no other thread may begin an operation here; what has begun ends
  // with an error. When it raises, nothing has changed.
  bool supportsReconfigure() const override { return true; }
  ::c10d::ReconfigureHandle get_reconfigure_handle() const override;
  WorkPtr reconfigure(const ::c10d::ReconfigureOptions& options) override;
#endif

  // Tensors in shared memory, and how much of it there is.
  // A CPU's index is -1: DDP asks for whatever its model is on.
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return index < 0; }
  at::Tensor allocateTensor(long count, at::TensorOptions options) override;
  std::unordered_map<std::string, std::uint64_t> getMemoryStats() CUSTOMCCL_OVERRIDE_SINCE_2_12;
  // Collective: gives the memory of the group's staging back for a while.
  void suspend() CUSTOMCCL_OVERRIDE_SINCE_2_12;
  void resume() CUSTOMCCL_OVERRIDE_SINCE_2_12;

  void registerOnCompletionHook(std::function<void(std::shared_ptr<::c10d::WorkInfo>)>&& hook) override;
  void waitForPendingWorks() override;
  void enableCollectivesTiming() override { timed_.store(true, std::memory_order_relaxed); }

  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return group_->sequence(); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  // For every operation that begins from now on, until the first of them is over.
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) CUSTOMCCL_OVERRIDE_SINCE_2_14;
  ::c10d::ErrorType getError() override;
  void abort() override;
#ifdef C10D_BACKEND_HAS_HOOKS
  bool supportsAbortHooks() const CUSTOMCCL_OVERRIDE_SINCE_2_15 { return true; }
  void registerAbortHook(std::int64_t id, ::c10d::AbortHook hook) override;
  void unregisterAbortHook(std::int64_t id) override { abort_hooks_->remove(id); }
#endif
#if CUSTOMCCL_TORCH_HAS_COMPLETION_HOOKS
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(std::int64_t id, ::c10d::CompletionHook hook) override;
  void unregisterCompletionHook(std::int64_t id) override { success_hooks_->remove(id); }
#endif
  void shutdown() override { group_->close(); }

 private:
  // The caller's tensors, which an asynchronous call keeps alive. Valid during the call only.
  struct Held {
    // What its Work tells: nothing comes out of a send. A Work without tensors goes without taking Python's lock.
    at::TensorList results(Label label) const {
      return label.type == ::c10d::OpType::SEND ? at::TensorList() : outputs;
    }

    at::TensorList inputs;
    at::TensorList outputs;
    // all_to_all: rows for each rank and from each rank, as the caller gave them.
    std::span<const std::int64_t> input_splits{};
    std::span<const std::int64_t> output_splits{};
  };
  // Synchronous: runs now and returns a finished Work. Else posts and returns a Work that becomes finished.
  template <class Hold>
  WorkPtr launch(PreparedCall&& prepared, bool async, Label label, Hold&& hold);
  // Asynchronous, and nobody listens.
  [[gnu::hot]] WorkPtr begin(PreparedCall&& prepared, Label label, const Held& held);
  // Several operations with one Work; they go out one after the other.
  WorkPtr launch_all(std::vector<PreparedCall> calls, bool async, Label label, const Held& held);
  WorkPtr post_all(std::span<PreparedCall> calls, bool async, Label label, const Held& held);
  [[gnu::hot]] void run(PreparedCall& prepared);
  // Tells the abort hooks, if the group is over, and throws.
  [[noreturn]] void fail(const Status& status);
  // `memory`: of the tensors, for as long as the call takes.
  std::shared_ptr<TensorTask> post(PreparedCall&& prepared, const std::shared_ptr<const TensorTask::Memory>& memory,
                                   ::c10d::OpType type);
  WorkPtr make_work(std::vector<std::shared_ptr<TensorTask>> tasks, Label label, const Held& held, bool async,
                    TimeoutExtensions::Grant grant);
  // One per kind of operation, shared by all calls.
  static constexpr std::size_t kKinds = 32;
  using FinishedWorks = std::array<WorkPtr, kKinds>;
  static const FinishedWorks& finished_works();
  WorkPtr finished_work(::c10d::OpType type) const { return finished_works_[static_cast<std::size_t>(type) % kKinds]; }
  // What whoever asked for no Work gets when all is done: none, like from torch's own backend for GPUs, so that torch.distributed
  // neither makes a Python object of it nor waits for it (0.5 us). But a finished one where torch would use it unasked, and crash:
  // its list of Works in flight, if it is kept; and groups written in Python that know all_to_all_single by its former name.
  WorkPtr ended_work(::c10d::OpType type) const;

  // For those who watch (observed.cpp): the profiler, the flight recorder, hooks, extended timeouts.
  // `body` carries out what `call` tells of, within its timeout. The Work gives `results` as such, if there are any.
  WorkPtr run_observed(Call& call, const std::function<void()>& body, Label label, const Held& held,
                       std::optional<at::StepCallbacks> callbacks, at::TensorList results = {});
  WorkPtr run_watched(Call& call, const std::function<void()>& body, Label label, const Held& held,
                      at::TensorList results);
  WorkPtr report_success(::c10d::OpType type, Clock::time_point begin, at::TensorList outputs = {});
  void with_comms(Label label, const Held& held, bool async, const std::function<void()>& body);
  Audience watch(const TensorTask& task, Label label, const Held& held, TimeoutExtensions::Grant grant);
  std::uint64_t log_flight(const Call& call, std::uint64_t sequence, Label label, const Held& held);
  static void begin_record(at::RecordFunction& record, Label label, at::TensorList inputs);
  void extend(Call& call, const TimeoutExtensions::Grant& grant) const;
  bool timed() const { return timed_.load(std::memory_order_relaxed); }
  // Whether anybody but the profiler may be listening, or ever was.
  bool watched() const { return watched_.load(std::memory_order_relaxed); }

  static c10::intrusive_ptr<CustomBackend> create_in(const StorePtr& store, const GroupSpec& spec,
                                                     const OptionsPtr& options, const Attendance& attendance);
  static c10::intrusive_ptr<CustomOptions> own_options(const GroupSpec& spec, const OptionsPtr& given);
  void adopt(std::shared_ptr<Communicator> group);

  at::Tensor sum_sparse(const at::Tensor& input, Nanos limit);  // over all ranks; 0: the group's limit
  [[gnu::hot]] PreparedCall prepare_all_reduce(const at::Tensor& tensor, const ::c10d::AllreduceOptions& options) const;
  [[gnu::hot]] PreparedCall prepare_all_gather(const at::Tensor& output, const at::Tensor& input,
                                               const ::c10d::AllgatherOptions& options) const;
  PreparedCall prepare_all_gather_list(const Tensors& outputs, const at::Tensor& input,
                                       const ::c10d::AllgatherOptions& options) const;
  [[gnu::hot]] PreparedCall prepare_reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                                   const ::c10d::ReduceScatterOptions& options) const;
  [[gnu::hot]] WorkPtr message(Op op, Tensors& tensors, int peer, int tag, Label label);
  std::size_t size() const { return static_cast<std::size_t>(getSize()); }

  std::shared_ptr<Communicator> group_;
  const FinishedWorks& finished_works_ = finished_works();
  // The one before reconfigure(): another thread may still be on its way out of it.
  std::shared_ptr<Communicator> former_;
  const std::shared_ptr<Reconfiguration> reconfiguration_;
  StorePtr store_;  // for shrink()
  c10::intrusive_ptr<CustomOptions> options_;
  // Shared with Works, which may outlive this.
  std::shared_ptr<AbortHooks> abort_hooks_ = std::make_shared<AbortHooks>();
  std::shared_ptr<SuccessHooks> success_hooks_ = std::make_shared<SuccessHooks>();
  std::shared_ptr<CompletionHook> hook_ = std::make_shared<CompletionHook>();
  std::shared_ptr<TimeoutExtensions> extensions_ = std::make_shared<TimeoutExtensions>();
  const bool logs_flights_;
  const std::uint64_t flight_group_;
  std::atomic<bool> watched_;
  std::atomic<bool> timed_{false};
  int shrinks_ = 0;
  std::mutex coalescing_mutex_;
  std::atomic<bool> coalescing_{false};  // written under the mutex
  std::vector<std::shared_ptr<TensorTask>> coalesced_;
};

}  // namespace customccl::torch_shim
