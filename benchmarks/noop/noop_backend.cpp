// Five c10d backends. Three move no data, so what is left of a call's time is c10d, Python and the clock.
// The floor does nothing, with or without giving a Work to who asked for none (torch's CPU backends give one, its GPU backend does not).
// "exchange" also has the ranks exchange one flag each, as any backend must whose operations mean anything; it gives no Work unasked.
// The next hands its tensor's address to customccl's C interface and looks at nothing: the floor and the C level in one call.
// The last has another backend do each all_reduce, the one that was chosen last: one program, in the same memory, over each peer.
// Tensors that a program has its backend allocate come from the one chosen then.
// Every Work is the same finished one, made once; DistributedDataParallel gets its tensors back through it.

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <dlfcn.h>
#include <fcntl.h>
#include <pybind11/chrono.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "../c/pin.h"
#include "customccl.h"

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

class NoopBackend : public ::c10d::Backend {
 public:
  NoopBackend(int rank, int size, bool works_unasked = true) : Backend(rank, size), works_unasked_(works_unasked) {}
  const std::string getBackendName() const override { return "noop"; }
  void startCoalescing() override {}
  WorkPtr endCoalescing() override { return work_; }
  bool supportsCoalescing() const override { return true; }

  WorkPtr broadcast(Tensors&, const ::c10d::BroadcastOptions& options) override { return done(options.asyncOp); }
  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override {
    if (options.asyncOp) work_->keep(tensors);
    return done(options.asyncOp);
  }
  WorkPtr allreduce_coalesced(Tensors&, const ::c10d::AllreduceCoalescedOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr reduce(Tensors&, const ::c10d::ReduceOptions& options) override { return done(options.asyncOp); }
  WorkPtr allgather(std::vector<Tensors>&, Tensors&, const ::c10d::AllgatherOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const ::c10d::AllgatherOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors&, Tensors&, const ::c10d::AllgatherOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr gather(std::vector<Tensors>&, Tensors&, const ::c10d::GatherOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr scatter(Tensors&, std::vector<Tensors>&, const ::c10d::ScatterOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr reduce_scatter(Tensors&, std::vector<Tensors>&, const ::c10d::ReduceScatterOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&, const ::c10d::ReduceScatterOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors&, Tensors&, const ::c10d::ReduceScatterOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const ::c10d::AllToAllOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr alltoall(Tensors&, Tensors&, const ::c10d::AllToAllOptions& options) override {
    return done(options.asyncOp);
  }
  WorkPtr send(Tensors&, int, int) override { return work_; }
  WorkPtr recv(Tensors&, int, int) override { return work_; }
  WorkPtr barrier(const ::c10d::BarrierOptions& options) override { return done(options.asyncOp); }

 protected:
  WorkPtr done(bool asked = true) const { return asked || works_unasked_ ? WorkPtr(work_) : nullptr; }

 private:
  bool works_unasked_;
  c10::intrusive_ptr<FinishedWork> work_ = c10::make_intrusive<FinishedWork>();
};

// A word from each rank to each other, alone in its pair of cache lines: how many operations the writer has begun for the reader.
// It only grows, and nothing but the word travels.
class Flags {
 public:
  Flags(::c10d::Store& store, int rank, int size) : rank_(rank), size_(size) {
    const auto count = static_cast<std::size_t>(size * size);
    int file = -1;
    if (rank == 0) {
      file = memfd_create("benchmarks_flags", 0);
      TORCH_CHECK(file >= 0 && ftruncate(file, static_cast<off_t>(count * sizeof(Word))) == 0, "no shared memory");
      store.set("flags", "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file));
    } else {
      file = open(store.get_to_str("flags").c_str(), O_RDWR);
      TORCH_CHECK(file >= 0, "no shared memory");
    }
    void* memory = mmap(nullptr, count * sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    TORCH_CHECK(memory != MAP_FAILED, "no shared memory");
    words_ = static_cast<Word*>(memory);
    seen_.resize(static_cast<std::size_t>(size));
    crowded_ = usable_processors() < size;
  }

  void show(int to) { word(rank_, to).add_one(); }
  void await(int from) {
    const std::uint64_t wanted = ++seen_[static_cast<std::size_t>(from)];
    while (word(from, rank_).value.load(std::memory_order_acquire) < wanted) {
      if (crowded_) sched_yield();
    }
  }
  void exchange() {
    for (int other = 0; other < size_; ++other) other == rank_ ? void() : show(other);
    for (int other = 0; other < size_; ++other) other == rank_ ? void() : await(other);
  }

 private:
  struct alignas(128) Word {
    std::atomic<std::uint64_t> value{0};
    void add_one() { value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  };
  Word& word(int from, int to) { return words_[from * size_ + to]; }

  int rank_;
  int size_;
  bool crowded_ = false;
  Word* words_ = nullptr;
  std::vector<std::uint64_t> seen_;
};

class ExchangeBackend final : public NoopBackend {
 public:
  ExchangeBackend(::c10d::Store& store, int rank, int size)
      : NoopBackend(rank, size, false), flags_(store, rank, size) {}
  const std::string getBackendName() const override { return "exchange"; }

  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override {
    flags_.exchange();
    return NoopBackend::allreduce(tensors, options);
  }
  WorkPtr _allgather_base(at::Tensor&, at::Tensor&, const ::c10d::AllgatherOptions& options) override {
    return exchanged(options.asyncOp);
  }
  WorkPtr _reduce_scatter_base(at::Tensor&, at::Tensor&, const ::c10d::ReduceScatterOptions& options) override {
    return exchanged(options.asyncOp);
  }
  WorkPtr alltoall_base(at::Tensor&, at::Tensor&, std::vector<int64_t>&, std::vector<int64_t>&,
                        const ::c10d::AllToAllOptions& options) override {
    return exchanged(options.asyncOp);
  }
  WorkPtr barrier(const ::c10d::BarrierOptions& options) override { return exchanged(options.asyncOp); }
  WorkPtr broadcast(Tensors&, const ::c10d::BroadcastOptions& options) override {
    if (options.rootRank != getRank()) return awaited(static_cast<int>(options.rootRank), options.asyncOp);
    for (int other = 0; other < getSize(); ++other) {
      if (other != getRank()) flags_.show(other);
    }
    return done(options.asyncOp);
  }
  WorkPtr send(Tensors&, int destination, int) override {
    flags_.show(destination);
    return done();
  }
  WorkPtr recv(Tensors&, int source, int) override { return awaited(source); }

 private:
  WorkPtr exchanged(bool asked) {
    flags_.exchange();
    return done(asked);
  }
  WorkPtr awaited(int from, bool asked = true) {
    flags_.await(from);
    return done(asked);
  }

  Flags flags_;
};

class CInterfaceBackend final : public NoopBackend {
 public:
  CInterfaceBackend(::c10d::Store& store, int rank, int size, const char* library)
      : NoopBackend(rank, size), library_(dlopen(library, RTLD_NOW)) {
    TORCH_CHECK(library_ != nullptr, dlerror());
    run_ = function<decltype(&customccl_run)>("customccl_run");
    customccl_token token{};
    if (rank == 0) {
      checked(function<decltype(&customccl_make_token)>("customccl_make_token")(&token));
      store.set("token", std::string(token.text));
    } else {
      const std::string text = store.get_to_str("token");
      std::memcpy(token.text, text.c_str(), std::min(text.size() + 1, sizeof(token.text)));
    }
    checked(function<decltype(&customccl_init)>("customccl_init")(&token, rank, size, nullptr, &comm_));
  }
  const std::string getBackendName() const override { return "c interface"; }

  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions&) override {
    void* data = tensors[0].data_ptr();
    const customccl_call call = customccl_make_call(CUSTOMCCL_ALL_REDUCE, data, data,
                                                    static_cast<std::size_t>(tensors[0].numel()), CUSTOMCCL_FLOAT32);
    checked(run_(comm_, &call));
    return done();
  }

 private:
  template <class Function>
  Function function(const char* name) {
    void* found = dlsym(library_, name);
    TORCH_CHECK(found != nullptr, dlerror());
    return reinterpret_cast<Function>(found);
  }
  void checked(customccl_code code) {
    if (code != CUSTOMCCL_OK) TORCH_CHECK(false, function<decltype(&customccl_last_error)>("customccl_last_error")());
  }

  void* library_;
  decltype(&customccl_run) run_ = nullptr;
  customccl_comm* comm_ = nullptr;
};

class RelayBackend final : public NoopBackend {
 public:
  RelayBackend(int rank, int size) : NoopBackend(rank, size) {}
  const std::string getBackendName() const override { return "relay"; }
  void choose(c10::intrusive_ptr<::c10d::Backend> backend) { chosen_ = std::move(backend); }

  WorkPtr allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) override {
    return chosen_->allreduce(tensors, options);
  }
  bool supportsTensorAlloc(c10::DeviceIndex index) override { return chosen_->supportsTensorAlloc(index); }
  at::Tensor allocateTensor(long count, at::TensorOptions options) override {
    return chosen_->allocateTensor(count, std::move(options));
  }

 private:
  c10::intrusive_ptr<::c10d::Backend> chosen_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  namespace py = pybind11;
  module.def("create", [](const c10::intrusive_ptr<::c10d::Store>&, int rank, int size, std::chrono::milliseconds) {
    return c10::intrusive_ptr<::c10d::Backend>(c10::make_intrusive<NoopBackend>(rank, size));
  });
  module.def("create_without_work",
             [](const c10::intrusive_ptr<::c10d::Store>&, int rank, int size, std::chrono::milliseconds) {
               return c10::intrusive_ptr<::c10d::Backend>(c10::make_intrusive<NoopBackend>(rank, size, false));
             });
  module.def("create_exchange",
             [](const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size, std::chrono::milliseconds) {
               return c10::intrusive_ptr<::c10d::Backend>(c10::make_intrusive<ExchangeBackend>(*store, rank, size));
             });
  module.def("create_c_interface", [](const std::string& library, const c10::intrusive_ptr<::c10d::Store>& store,
                                      int rank, int size, std::chrono::milliseconds) {
    return c10::intrusive_ptr<::c10d::Backend>(
        c10::make_intrusive<CInterfaceBackend>(*store, rank, size, library.c_str()));
  });
  module.def("create_relay",
             [](const c10::intrusive_ptr<::c10d::Store>&, int rank, int size, std::chrono::milliseconds) {
               return c10::intrusive_ptr<::c10d::Backend>(c10::make_intrusive<RelayBackend>(rank, size));
             });
  module.def("choose", [](::c10d::Backend& relay, c10::intrusive_ptr<::c10d::Backend> backend) {
    dynamic_cast<RelayBackend&>(relay).choose(std::move(backend));
  });
}
