#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include "c10d/abort_hooks.h"
#include "c10d/backend.h"
#include "c10d/buffer_tensor.h"
#include "c10d/facts.h"
#include "c10d/flight_dump.h"
#include "c10d/memory_call.h"
#include "c10d/message_exchange.h"
#include "c10d/python_lock.h"
#include "c10d/shim_stamp.h"
#include "c10d/standalone_group.h"
#include "c10d/timeout_check.h"
#include "core/callbacks.h"
#include "platform/build_stamp.h"

// The Python module _shim_<torch minor>. torch is imported before it (torch_customccl/_loader.py), so its base classes are known.

// torch.utils.cpp_extension.load builds the same sources and says the name of the module in its own way.
#ifndef CUSTOMCCL_SHIM_NAME
#define CUSTOMCCL_SHIM_NAME TORCH_EXTENSION_NAME
#endif

namespace py = pybind11;

namespace customccl::torch_shim {

namespace {

c10::intrusive_ptr<::c10d::Backend> create_backend(GroupKeys& keys, int rank, int size,
                                                   std::chrono::milliseconds timeout, const std::string& name,
                                                   const std::vector<int>& global_ranks,
                                                   const c10::intrusive_ptr<CustomOptions>& options,
                                                   const Attendance* attendance) {
  TORCH_CHECK_VALUE(size >= 1 && rank >= 0 && rank < size, "customccl: rank ", rank, " of ", size,
                    " ranks makes no sense");
  TORCH_CHECK_VALUE(global_ranks.size() == static_cast<std::size_t>(size), "customccl: ", global_ranks.size(),
                    " global ranks were given for a group of ", size);
  check_timeout(timeout);
  const GroupSpec spec{name, rank, size, global_ranks, to_limit(timeout)};
  if (options && options->deferred()) return CustomBackend::create_unconnected(keys.part(), spec, options);
  const Attendance of_nobody;
  return CustomBackend::create(keys, spec, options, attendance != nullptr ? *attendance : of_nobody);
}

// Python says it as an ImportError, of which torch_customccl/_loader.py makes a sentence with the command that builds both anew.
void check_library() {
  if (library_stamp() == shim_stamp()) return;
  throw py::import_error("libcustomccl.so beside it is of another build: stamp " +
                         std::string(library_stamp().substr(0, 12)) + ", the shim has " +
                         std::string(shim_stamp().substr(0, 12)));
}

c10::intrusive_ptr<CustomOptions> copy_options(const CustomOptions& options) {
  return c10::make_intrusive<CustomOptions>(options);
}

std::vector<int> ranks_that_died(const Attendance& attendance) {
  std::vector<int> ranks;
  for (const auto& [rank, why] : attendance.gone()) {
    if (why == Code::kPeerDied) ranks.push_back(rank);
  }
  return ranks;
}

void bind_meeting(py::module_& module) {
  py::class_<Attendance>(module, "Attendance", "What ends the meeting of a group before its limit.")
      .def(py::init())
      .def(
          py::init([](const CustomBackend& known, std::vector<int> members) {
            return std::make_unique<Attendance>(known.group(), std::move(members));
          }),
          py::arg("known").none(false), py::arg("members"),
          "As `known`, a group's backend, says. members[r]: what rank r of the group to be made is there; -1: nothing.")
      .def("knows", &Attendance::knows, py::arg("rank"), "Whether a rank of the group to be made is in `known`.")
      .def("watch", &Attendance::watch, py::arg("rank"), py::arg("address"), py::call_guard<py::gil_scoped_release>(),
           "What process a rank is that is not in `known`, by its own_address(). False: ask again, as it is stopped.")
      .def_static("own_address", &Attendance::own_address, py::call_guard<py::gil_scoped_release>())
      .def("give_up", &Attendance::give_up, "Ends a create_backend() of another thread.")
      .def("died", &ranks_that_died, "The ranks of the group to be made whose processes have ended.");
  using StorePtr = GroupKeys::StorePtr;
  py::class_<GroupKeys>(module, "GroupKeys", "The part of a store in which the ranks of a group meet.")
      .def(py::init<StorePtr, int>(), py::arg("store").none(false), py::arg("rank"),
           py::call_guard<py::gil_scoped_release>(), "A part of `store` that `rank` has not used.")
      .def(py::init<StorePtr>(), py::arg("part").none(false), "All of `part`, in which nothing else meets.")
      .def_property_readonly("part", &GroupKeys::part);
  module.def("create_backend", &create_backend, py::arg("keys"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
             py::arg("group_name"), py::arg("global_ranks"), py::arg("options") = nullptr,
             py::arg("attendance") = nullptr, py::call_guard<py::gil_scoped_release>());
}

bool drain(CustomBackend& backend, std::chrono::milliseconds limit) {
  const bool ended = backend.group()->drain(limit);
  stay_if_python_ends();
  return ended;
}

}  // namespace

void bind(py::module_& module) {
  py::class_<CustomOptions, c10::intrusive_ptr<CustomOptions>, ::c10d::Backend::Options>(
      module, "Options", "Options of a customccl group (pg_options).")
      .def(py::init([](std::chrono::milliseconds timeout) { return c10::make_intrusive<CustomOptions>(timeout); }),
           py::arg("timeout") = kBackendDefaultTimeout)
      .def("__copy__", &copy_options)
      .def(
          "__deepcopy__", [](const CustomOptions& options, const py::object&) { return copy_options(options); },
          py::arg("memo"));
  py::class_<CustomBackend, c10::intrusive_ptr<CustomBackend>, ::c10d::Backend>(module, "CustomBackend",
                                                                                "A customccl group, as torch sees it.")
      // As gloo's and nccl's objects have it; dist.split_group copies it for the child.
      .def_property_readonly("options", [](CustomBackend& backend) { return backend.options(); })
      .def(
          "all_reduce",
          [](CustomBackend& backend, const at::Tensor& tensor) { backend.all_reduce(tensor, ::c10d::ReduceOp::SUM); },
          py::arg("tensor"), py::call_guard<py::gil_scoped_release>())
      // Before the next one, for which pybind would make a ReduceOp of it: that takes longer than the operation.
      .def(
          "all_reduce",
          [](CustomBackend& backend, const at::Tensor& tensor, ::c10d::ReduceOp::RedOpType op) {
            backend.all_reduce(tensor, op);
          },
          py::arg("tensor"), py::arg("op"), py::call_guard<py::gil_scoped_release>())
      .def(
          "all_reduce", &CustomBackend::all_reduce, py::arg("tensor"), py::arg("op"),
          py::call_guard<py::gil_scoped_release>(),
          "all_reduce(tensor, op=SUM): allreduce() of one tensor, done on return. Fewer steps of Python and torch than "
          "any other call: no dispatcher, no list, no options, no Work.")
      .def("drain", &drain, py::arg("limit"), py::call_guard<py::gil_scoped_release>())
      // Some torch versions bind these for every backend, some do not.
      .def("suspend", &CustomBackend::suspend, py::call_guard<py::gil_scoped_release>())
      .def("resume", &CustomBackend::resume, py::call_guard<py::gil_scoped_release>())
      .def("memory_stats", &CustomBackend::getMemoryStats, py::call_guard<py::gil_scoped_release>())
      .def("_add_ephemeral_timeout", &CustomBackend::addEphemeralTimeout, py::arg("timeout"))
      // new_group() calls it on the default group of ranks outside the new group: nothing is to be done there.
      .def("perform_nocolor_split", [](CustomBackend&, const py::object&) {}, py::arg("device"));
  bind_meeting(module);
  module.attr("build_stamp") = std::string(shim_stamp());
  module.def("tensor_of_buffer", &tensor_of_buffer, py::arg("object"), py::arg("writable"));
  bind_standalone_group(module);
  bind_message_exchange(module);
  bind_memory_call(module);
  module.def("info", &facts);
  module.def("flight_dump", &flight_dump, py::arg("stacks"), py::arg("only_active"));
  // torch_customccl/_autoload.py calls it at the end.
  module.def("python_ends", [] {
    python_ends_here();
    const py::gil_scoped_release release;
    Callbacks::get().stop(std::chrono::seconds(1));
  });
  // Not atexit: processes of multiprocessing end without it. torch gives its record 15 seconds, twice.
  const py::cpp_function last_words([] {
    const py::gil_scoped_release release;
    wait_for_abort_hooks(std::chrono::seconds(45));
  });
  py::module_::import("multiprocessing.util").attr("Finalize")(py::none(), last_words, py::arg("exitpriority") = 0);
}

}  // namespace customccl::torch_shim

PYBIND11_MODULE(CUSTOMCCL_SHIM_NAME, module) {
  customccl::torch_shim::check_library();
  customccl::torch_shim::bind(module);
}
