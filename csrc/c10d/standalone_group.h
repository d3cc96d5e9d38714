#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <pybind11/pybind11.h>

#include <atomic>

#include "c10d/compat.h"

namespace customccl::torch_shim {

// A ProcessGroup outside torch's global world: what torch_customccl.Group builds on. Its ranks are always those of the group itself,
// and its backend can be exchanged for one with other members while the object stays (torch_customccl/group_change.py).
//
// Thread rule: as torch's; install() and reconfigure() only while no operation is being started.
class StandaloneGroup final : public ::c10d::ProcessGroup {
 public:
  using BackendPtr = c10::intrusive_ptr<::c10d::Backend>;

  StandaloneGroup(c10::intrusive_ptr<::c10d::Store> store, const BackendPtr& backend);
  // Lets go of the backend without Python's lock: gloo's waits for its threads, and those need the lock to let go of tensors.
  ~StandaloneGroup() override;

  // torch's own are constants in some versions and ask the backend in others.
  int getRank() const override { return rank_now_.load(std::memory_order_relaxed); }
  int getSize() const override { return size_now_.load(std::memory_order_relaxed); }

#ifdef C10D_BACKEND_HAS_RECONFIGURE
  c10::intrusive_ptr<::c10d::Work> reconfigure(const ::c10d::ReconfigureOptions& options) override;
#endif

  // Serves CPU tensors by `backend` from now on. The one before lives as long as somebody holds it.
  void install(const BackendPtr& backend);

 private:
  void forget_backends();
  void ask(const ::c10d::Backend& backend);

  std::atomic<int> rank_now_;
  std::atomic<int> size_now_;
};

void bind_standalone_group(pybind11::module_& module);

}  // namespace customccl::torch_shim
