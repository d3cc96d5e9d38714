// A c10d backend that does nothing: what is left of a call's time is c10d, Python and the clock. The floor of every c10d backend.
// Every operation returns the same finished Work, made once; DistributedDataParallel gets its tensors back through it.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<::c10d::Work>;

class FinishedWork final : public ::c10d::Work {
 public:
  bool isCompleted() override { return true; }
  bool isSuccess() const override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    future->markCompleted(c10::IValue(last_));
    return future;
  }
  void keep(const Tensors& tensors) { last_ = tensors; }

 private:
  Tensors last_;
};

class NoopBackend final : public ::c10d::Backend {
 public:
  NoopBackend(int rank, int size) : Backend(rank, size) {}
  const std::string getBackendName() const override { return "noop"; }
  void startCoalescing() override {}
  WorkPtr endCoalescing() override { return work_; }
  bool supportsCoalescing() const override { return true; }

  WorkPtr broadcast(Tensors&, const ::c10d::BroadcastOptions&) override { return work_; }
  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override {
    if (options.asyncOp) work_->keep(tensors);
    return work_;
  }
  WorkPtr allreduce_coalesced(Tensors&, const ::c10d::AllreduceCoalescedOptions&) override { return work_; }
  WorkPtr reduce(Tensors&, const ::c10d::ReduceOptions&) override { return work_; }
  WorkPtr allgather(std::vector<Tensors>&, Tensors&, const ::c10d::AllgatherOptions&) override { return work_; }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const ::c10d::AllgatherOptions&) override { return work_; }
  WorkPtr allgather_into_tensor_coalesced(Tensors&, Tensors&, const ::c10d::AllgatherOptions&) override { return work_; }
  WorkPtr gather(std::vector<Tensors>&, Tensors&, const ::c10d::GatherOptions&) override { return work_; }
  WorkPtr scatter(Tensors&, std::vector<Tensors>&, const ::c10d::ScatterOptions&) override { return work_; }
  WorkPtr reduce_scatter(Tensors&, std::vector<Tensors>&, const ::c10d::ReduceScatterOptions&) override { return work_; }
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&, const ::c10d::ReduceScatterOptions&) override { return work_; }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors&, Tensors&, const ::c10d::ReduceScatterOptions&) override { return work_; }
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const ::c10d::AllToAllOptions&) override {
    return work_;
  }
  WorkPtr alltoall(Tensors&, Tensors&, const ::c10d::AllToAllOptions&) override { return work_; }
  WorkPtr send(Tensors&, int, int) override { return work_; }
  WorkPtr recv(Tensors&, int, int) override { return work_; }
  WorkPtr barrier(const ::c10d::BarrierOptions&) override { return work_; }

 private:
  c10::intrusive_ptr<FinishedWork> work_ = c10::make_intrusive<FinishedWork>();
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace py = pybind11;
  module.def("create", [](const c10::intrusive_ptr<::c10d::Store>&, int rank, int size, std::chrono::milliseconds) {
    return c10::intrusive_ptr<::c10d::Backend>(c10::make_intrusive<NoopBackend>(rank, size));
  });
}
