#include "c10d/standalone_group.h"

#include <torch/csrc/utils/pybind.h>

#include "c10d/python_lock.h"

namespace customccl::torch_shim {

namespace py = pybind11;

StandaloneGroup::StandaloneGroup(c10::intrusive_ptr<::c10d::Store> store, const BackendPtr& backend)
    : ProcessGroup(std::move(store), backend->getRank(), backend->getSize()) {
  install(backend);
}

StandaloneGroup::~StandaloneGroup() {
  const WithoutPythonLock without_lock;
  forget_backends();
}

void StandaloneGroup::forget_backends() {
  deviceTypeToBackend_.clear();
  backendTypeToBackend_.clear();
}

void StandaloneGroup::install(const BackendPtr& backend) {
  forget_backends();
  setBackend(c10::DeviceType::CPU, BackendType::CUSTOM, backend);
  setDefaultBackend(BackendType::CUSTOM);
  ask(*backend);
}

void StandaloneGroup::ask(const ::c10d::Backend& backend) {
  rank_now_.store(backend.getRank(), std::memory_order_relaxed);
  size_now_.store(backend.getSize(), std::memory_order_relaxed);
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
c10::intrusive_ptr<::c10d::Work> StandaloneGroup::reconfigure(const ::c10d::ReconfigureOptions& options) {
  auto work = ProcessGroup::reconfigure(options);
  ask(*getDefaultBackend());
  return work;
}
#endif

void bind_standalone_group(py::module_& module) {
  // dynamic_attr is inherited by Python's subclasses anyway; the class itself is not for users.
  py::class_<StandaloneGroup, c10::intrusive_ptr<StandaloneGroup>, ::c10d::ProcessGroup>(
      module, "StandaloneGroup", "The C++ side of torch_customccl.Group.")
      .def(py::init([](c10::intrusive_ptr<::c10d::Store> store, const StandaloneGroup::BackendPtr& backend) {
             return c10::make_intrusive<StandaloneGroup>(std::move(store), backend);
           }),
           py::arg("store").none(false), py::arg("backend").none(false))
      .def("_install", &StandaloneGroup::install, py::arg("backend").none(false),
           py::call_guard<py::gil_scoped_release>());
}

}  // namespace customccl::torch_shim
