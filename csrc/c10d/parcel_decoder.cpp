#include "c10d/parcel_decoder.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>

#include "c10d/recursion_guard.h"
#include "c10d/tensor_checks.h"
#include "c10d/types.h"

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

py::object checked(PyObject* made) {
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

// A part of an arrived message for pickle's out-of-band buffers.
struct SharedBytes {
  std::shared_ptr<void> keep;
  std::byte* data;
  std::size_t bytes;
};

// A tensor given to be filled has memory for each of its elements. Those on other devices are torch's to copy to.
void check_target(const at::Tensor& target) {
  TORCH_CHECK_VALUE(target.layout() == c10::kStrided && !target.is_meta(), "customccl: a tensor of layout ",
                    target.layout(), " on ", target.device(),
                    " was given to be filled; that takes a dense one with memory");
  if (target.is_cpu()) check_memory(target);
  TORCH_CHECK_VALUE(!overlaps_itself(target),
                    "customccl: a tensor of which several elements are the same memory (sizes ", target.sizes(),
                    ", strides ", target.strides(), ") was given to be filled. Use clone()");
}

}  // namespace

ParcelDecoder::ParcelDecoder(std::span<const std::byte> header, std::byte* base, std::uint64_t run_bytes,
                             std::shared_ptr<void> keep, Rules rules)
    : reader_(header), base_(base), left_(run_bytes), keep_(std::move(keep)), rules_(std::move(rules)) {}

void ParcelDecoder::make_room(void* data, std::uint64_t bytes) {
  check_parcel(aligned(bytes) >= bytes && aligned(bytes) <= left_, "its runs are too short");
  left_ -= aligned(bytes);
  if (bytes == 0) return;
  room_.push_back({static_cast<std::byte*>(data), nullptr, 0, bytes});
  if (aligned(bytes) != bytes) room_.push_back({waste_, nullptr, 0, aligned(bytes) - bytes});
}

// The next run, where it lies already.
std::byte* ParcelDecoder::run(std::uint64_t bytes) {
  check_parcel(aligned(bytes) >= bytes && aligned(bytes) <= left_, "its runs are too short");
  std::byte* data = base_;
  left_ -= aligned(bytes);
  base_ += aligned(bytes);
  return data;
}

py::object ParcelDecoder::string() {
  const std::uint64_t bytes = reader_.count();
  const auto* data = reinterpret_cast<const char*>(reader_.raw(bytes));
  return checked(PyUnicode_DecodeUTF8(data, static_cast<Py_ssize_t>(bytes), "surrogatepass"));
}

py::object ParcelDecoder::big_integer() {
  const std::uint64_t bytes = reader_.count();
  const py::bytes data(reinterpret_cast<const char*>(reader_.raw(bytes)), bytes);
  return py::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
      .attr("from_bytes")(data, "little", py::arg("signed") = true);
}

py::object ParcelDecoder::bytes_apart(bool array) {
  const std::uint64_t bytes = reader_.number();
  check_parcel(bytes <= left_, "its runs are too short");
  const char* from = base_ == nullptr ? nullptr : reinterpret_cast<const char*>(run(bytes));
  const auto length = static_cast<Py_ssize_t>(bytes);
  py::object made =
      checked(array ? PyByteArray_FromStringAndSize(from, length) : PyBytes_FromStringAndSize(from, length));
  if (from == nullptr) {
    make_room(array ? PyByteArray_AS_STRING(made.ptr()) : PyBytes_AS_STRING(made.ptr()), bytes);
  }
  return made;
}

// Things that are equal push each other out, and with them would go the room that was made in them.
void ParcelDecoder::keep_all(bool all_differ) const {
  check_parcel(all_differ || base_ != nullptr, "two keys, or items of a set, are equal");
}

py::object ParcelDecoder::items(Mark kind, const py::object& into) {
  const std::uint64_t length = reader_.count();
  const bool lists = py::isinstance<py::list>(into) || py::isinstance<py::tuple>(into);
  const py::object none = py::none();
  py::list list(length);
  for (std::uint64_t i = 0; i < length; ++i) {
    const bool given = lists && i < py::len(into);
    list[i] = value(given ? py::object(into[py::int_(i)]) : none);
  }
  if (kind == Mark::kList) return list;
  if (kind == Mark::kTuple) return checked(PyList_AsTuple(list.ptr()));
  py::object set = checked(kind == Mark::kSet ? PySet_New(list.ptr()) : PyFrozenSet_New(list.ptr()));
  keep_all(py::len(set) == length);
  return set;
}

py::object ParcelDecoder::dict(const py::object& into) {
  const std::uint64_t length = reader_.count();
  const bool dicts = py::isinstance<py::dict>(into);
  const py::object none = py::none();
  py::dict made;
  for (std::uint64_t i = 0; i < length; ++i) {
    const py::object key = value(none);
    const bool given = dicts && py::reinterpret_borrow<py::dict>(into).contains(key);
    made[key] = value(given ? py::object(into[key]) : none);
  }
  keep_all(made.size() == length);
  return made;
}

at::Tensor ParcelDecoder::tensor(const at::Tensor* target) {
  const TensorRecord record = reader_.tensor();
  const c10::IntArrayRef sizes(record.sizes);
  const c10::IntArrayRef strides(record.strides);
  const auto options = at::TensorOptions().dtype(record.type);
  if (base_ != nullptr && record.bytes != 0) {
    return at::from_blob(run(record.bytes), sizes, strides, [keep = keep_](void*) {}, options);
  }
  check_parcel(record.bytes <= left_, "its runs are too short");
  const bool in_place = target != nullptr && is_plain(*target) && target->scalar_type() == record.type &&
                        target->sizes() == sizes && target->strides() == strides;
  at::Tensor made = in_place ? *target : at::empty_strided(sizes, strides, options);
  make_room(made.mutable_data_ptr(), record.bytes);
  return made;
}

py::object ParcelDecoder::tensor_into(const py::object& into) {
  if (!THPVariable_Check(into.ptr())) return py::cast(tensor(nullptr));
  const at::Tensor& target = THPVariable_Unpack(into.ptr());
  check_target(target);
  const at::Tensor arrived = tensor(&target);
  TORCH_CHECK_VALUE(arrived.sizes() == target.sizes() && arrived.scalar_type() == target.scalar_type(),
                    "customccl: the message holds a tensor of ", arrived.scalar_type(), " ", arrived.sizes(),
                    " where a tensor of ", target.scalar_type(), " ", target.sizes(), " was given to be filled");
  if (arrived.const_data_ptr() != target.const_data_ptr()) copies_.emplace_back(target, arrived);
  return into;
}

namespace {

// Whether it is a tensor, or a container with one somewhere inside.
bool holds_tensor(py::handle into) {
  if (THPVariable_Check(into.ptr())) return true;
  const bool keyed = py::isinstance<py::dict>(into);
  if (!keyed && !py::isinstance<py::list>(into) && !py::isinstance<py::tuple>(into)) return false;
  const RecursionGuard guard(" while looking for tensors to fill");
  for (const py::handle each : keyed ? py::object(into.attr("values")()) : py::reinterpret_borrow<py::object>(into))
    if (holds_tensor(each)) return true;
  return false;
}

}  // namespace

py::object ParcelDecoder::pickle(const py::object& into) {
  const py::object type = string();
  if (holds_tensor(into)) {
    throw py::value_error("customccl: the message holds a pickled " + type.cast<std::string>() +
                          " where tensors were given to be filled, which a pickle cannot. Send a plain dict, list or "
                          "tuple of tensors");
  }
  const std::uint64_t bytes = reader_.count();
  const std::byte* data = reader_.raw(bytes);
  if (rules_.weights_only) {
    throw py::value_error("customccl: the message holds a pickled " + type.cast<std::string>() +
                          ", which weights_only=True refuses");
  }
  check_parcel(base_ != nullptr, "a pickle in parts");
  py::list buffers;
  for (std::uint64_t left = reader_.count(); left != 0; --left) {
    const std::uint64_t length = reader_.number();
    buffers.append(py::cast(SharedBytes{keep_, run(length), length}));
  }
  py::list tensors;
  for (std::uint64_t left = reader_.count(); left != 0; --left) {
    check_parcel(reader_.mark() == Mark::kTensor, "a tensor of a pickle");
    tensors.append(tensor(nullptr));
  }
  const py::object load = py::module_::import("torch_customccl.messages.objects").attr("load");
  return load(py::bytes(reinterpret_cast<const char*>(data), bytes), buffers, tensors);
}

py::object ParcelDecoder::value(const py::object& into) {
  const Mark mark = reader_.mark();
  switch (mark) {
    case Mark::kNone: return py::none();
    case Mark::kFalse: return py::bool_(false);
    case Mark::kTrue: return py::bool_(true);
    case Mark::kInt: {
      const std::uint64_t zigzag = reader_.number();
      return checked(PyLong_FromLongLong(static_cast<long long>((zigzag >> 1) ^ (~(zigzag & 1) + 1))));
    }
    case Mark::kBigInt: return big_integer();
    case Mark::kFloat: {
      double number = 0;
      std::memcpy(&number, reader_.raw(sizeof(number)), sizeof(number));
      return checked(PyFloat_FromDouble(number));
    }
    case Mark::kComplex: {
      Py_complex number;
      std::memcpy(&number, reader_.raw(sizeof(number)), sizeof(number));
      return checked(PyComplex_FromCComplex(number));
    }
    case Mark::kStr: return string();
    case Mark::kBytes: {
      const std::uint64_t bytes = reader_.count();
      return py::bytes(reinterpret_cast<const char*>(reader_.raw(bytes)), bytes);
    }
    case Mark::kBytesApart: return bytes_apart(false);
    case Mark::kByteArray: return bytes_apart(true);
    default: break;
  }
  const RecursionGuard guard(" while a message is decoded");
  switch (mark) {
    case Mark::kList:
    case Mark::kTuple:
    case Mark::kSet:
    case Mark::kFrozenSet: return items(mark, into);
    case Mark::kDict: return dict(into);
    case Mark::kTensor: return tensor_into(into);
    case Mark::kPickle: return pickle(into);
    default: garbled("an unknown mark");
  }
}

py::object ParcelDecoder::decode() {
  py::object made = value(rules_.into);
  check_parcel(reader_.left() < kRunAlignment, "its header is too long");
  check_parcel(left_ == 0, "its runs are too long");
  return made;
}

void ParcelDecoder::finish() {
  for (auto& [target, arrived] : copies_) target.detach().copy_(arrived);
  copies_.clear();
}

void bind_shared_bytes(py::module_& module) {
  py::class_<SharedBytes>(module, "_SharedBytes", py::buffer_protocol()).def_buffer([](SharedBytes& shared) {
    return py::buffer_info(reinterpret_cast<std::uint8_t*>(shared.data), static_cast<py::ssize_t>(shared.bytes));
  });
}

}  // namespace customccl::torch_shim
