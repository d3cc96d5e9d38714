#include "c10d/parcel_encoder.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <utility>

#include "c10d/recursion_guard.h"
#include "c10d/tensor_checks.h"
#include "c10d/types.h"

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

constexpr std::byte kPad[kRunAlignment]{};

class Encoder {
 public:
  explicit Encoder(Parcel& out) : out_(out) {
    out_.head.reserve(1024);
    out_.head.resize(sizeof(Preface));
  }

  void value(PyObject* object);
  bool pickled() const { return pickled_; }
  // The parts behind the head, as they are found; the head moves until it is complete.
  const std::vector<View>& runs() const { return runs_; }
  // Code of objects that were pickled after a tensor may have freed its memory.
  void check_memory_of_tensors() const;

 private:
  void mark(Mark mark) { out_.head.push_back(static_cast<std::byte>(mark)); }
  void raw(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    out_.head.insert(out_.head.end(), from, from + bytes);
  }
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.head.push_back(static_cast<std::byte>(value | 0x80));
    out_.head.push_back(static_cast<std::byte>(value));
  }
  void text(const char* data, std::size_t bytes) {
    number(bytes);
    raw(data, bytes);
  }
  void run(const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    runs_.push_back({static_cast<std::byte*>(const_cast<void*>(data)), nullptr, 0, bytes});
    if (const std::size_t pad = aligned(bytes) - bytes; pad != 0) {
      runs_.push_back({const_cast<std::byte*>(kPad), nullptr, 0, pad});
    }
  }

  bool scalar(PyObject* object);
  bool sequence(PyObject* object);
  void integer(PyObject* object);
  void string(PyObject* object);
  void bytes(PyObject* object);
  void dict(PyObject* object);
  void hashed(PyObject* object);
  void items(Mark kind, PyObject* object);
  void tensor(const at::Tensor& given);
  void pickle(PyObject* object);

  Parcel& out_;
  std::vector<View> runs_;
  // What out_.storages hold, and how much of it is sent.
  struct Memory {
    const void* data;
    std::size_t bytes;
  };
  std::vector<Memory> memory_;
  bool pickled_ = false;
  bool hashed_ = false;  // whether the receiver needs the hash of what is encoded
};

void Encoder::integer(PyObject* object) {
  int overflow = 0;
  const long long small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    mark(Mark::kInt);
    return number((static_cast<std::uint64_t>(small) << 1) ^ static_cast<std::uint64_t>(small >> 63));
  }
  const py::handle big(object);
  const auto length = big.attr("bit_length")().cast<std::size_t>() / 8 + 1;
  const py::bytes data = big.attr("to_bytes")(length, "little", py::arg("signed") = true);
  mark(Mark::kBigInt);
  text(PyBytes_AS_STRING(data.ptr()), length);
}

void Encoder::string(PyObject* object) {
  mark(Mark::kStr);
  Py_ssize_t length = 0;
  if (const char* data = PyUnicode_AsUTF8AndSize(object, &length); data != nullptr) {
    return text(data, static_cast<std::size_t>(length));
  }
  PyErr_Clear();  // lone surrogates
  const auto data = py::reinterpret_steal<py::bytes>(PyUnicode_AsEncodedString(object, "utf-8", "surrogatepass"));
  if (!data) throw py::error_already_set();
  text(PyBytes_AS_STRING(data.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(data.ptr())));
}

void Encoder::bytes(PyObject* object) {
  const bool array = PyByteArray_CheckExact(object) != 0;
  const char* data = array ? PyByteArray_AS_STRING(object) : PyBytes_AS_STRING(object);
  const auto length = static_cast<std::size_t>(array ? PyByteArray_GET_SIZE(object) : PyBytes_GET_SIZE(object));
  if (!array && (length < kApart || hashed_)) {
    mark(Mark::kBytes);
    return text(data, length);
  }
  mark(array ? Mark::kByteArray : Mark::kBytesApart);
  number(length);
  if (array) {  // exported while it is sent, so that nobody can resize it
    out_.buffers.push_back(std::make_unique<py::buffer_info>(py::reinterpret_borrow<py::buffer>(object).request()));
  } else {
    out_.objects.push_back(py::reinterpret_borrow<py::object>(object));
  }
  run(data, length);
}

void Encoder::hashed(PyObject* object) {
  const bool before = std::exchange(hashed_, true);
  value(object);
  hashed_ = before;
}

// Pickling runs code of the objects, which may change what holds them; and other threads may meanwhile.
void check_same_size(PyObject* container, Py_ssize_t now, Py_ssize_t before) {
  TORCH_CHECK(now == before, "customccl: a ", Py_TYPE(container)->tp_name, " of ", before, " items has ", now,
              " while a message of it is made");
}

void Encoder::items(Mark kind, PyObject* object) {
  const auto list = py::reinterpret_steal<py::object>(PySequence_Fast(object, "customccl: expected items"));
  if (!list) throw py::error_already_set();
  const Py_ssize_t length = PySequence_Fast_GET_SIZE(list.ptr());
  mark(kind);
  number(static_cast<std::uint64_t>(length));
  const bool set = kind == Mark::kSet || kind == Mark::kFrozenSet;
  for (Py_ssize_t i = 0; i < length; ++i) {
    const auto item = py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(list.ptr(), i));
    set ? hashed(item.ptr()) : value(item.ptr());
    check_same_size(object, PySequence_Fast_GET_SIZE(list.ptr()), length);
  }
}

void Encoder::dict(PyObject* object) {
  const Py_ssize_t length = PyDict_GET_SIZE(object);
  mark(Mark::kDict);
  number(static_cast<std::uint64_t>(length));
  PyObject* key = nullptr;
  PyObject* item = nullptr;
  Py_ssize_t found = 0;
  for (Py_ssize_t position = 0; PyDict_Next(object, &position, &key, &item) != 0; ++found) {
    const auto held = py::reinterpret_borrow<py::object>(item);
    hashed(py::reinterpret_borrow<py::object>(key).ptr());
    value(item);
    check_same_size(object, PyDict_GET_SIZE(object), length);
  }
  check_same_size(object, found, length);  // as many as before are others where one was removed and one added
}

// The tensor itself, if its values lie in its memory without gaps; else a copy of which that is true.
at::Tensor as_it_lies(const at::Tensor& given) {
  const bool lazy = given.is_conj() || given.is_neg() || given._is_zerotensor();
  if (!lazy && given.is_non_overlapping_and_dense()) return given;
  const at::Tensor values = given.detach().resolve_conj().resolve_neg();
  if (values._is_zerotensor()) return values.clone();
  return values.is_non_overlapping_and_dense() ? values : values.contiguous();
}

void Encoder::tensor(const at::Tensor& given) {
  TORCH_CHECK_VALUE(given.device().is_cpu(), "customccl: a message holds a tensor on ", given.device(),
                    "; messages carry CPU tensors. Send tensor.cpu()");
  if (!given._is_zerotensor()) check_memory(given);
  const at::Tensor dense = as_it_lies(given);
  mark(Mark::kTensor);
  number(static_cast<std::uint64_t>(dtype_of(dense.scalar_type())));
  number(static_cast<std::uint64_t>(dense.device().type()));
  number(static_cast<std::uint64_t>(dense.device().index() + 1));
  number(static_cast<std::uint64_t>(dense.dim()));
  for (const std::int64_t size : dense.sizes()) number(static_cast<std::uint64_t>(size));
  const bool strided = !dense.is_contiguous();
  number(strided ? 1 : 0);
  if (strided) {
    for (const std::int64_t stride : dense.strides()) number(static_cast<std::uint64_t>(stride));
  }
  run(dense.const_data_ptr(), dense.nbytes());
  if (dense.nbytes() == 0) return;
  const std::size_t begin = static_cast<std::size_t>(dense.storage_offset()) * dense.itemsize();
  memory_.push_back({dense.storage().data(), begin + dense.nbytes()});
  out_.storages.push_back(dense.storage());
}

void Encoder::check_memory_of_tensors() const {
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const c10::Storage& storage = out_.storages[i];
    TORCH_CHECK(storage.data() == memory_[i].data && storage.nbytes() >= memory_[i].bytes,
                "customccl: the memory of a tensor was resized while a message of it is made");
  }
}

void Encoder::pickle(PyObject* object) {
  pickled_ = true;
  const py::object dump = py::module_::import("torch_customccl.messages.objects").attr("dump");
  const py::tuple parts = dump(py::handle(object));
  const auto data = parts[0].cast<py::bytes>();
  mark(Mark::kPickle);
  const char* type = Py_TYPE(object)->tp_name;
  text(type, std::strlen(type));
  text(PyBytes_AS_STRING(data.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(data.ptr())));
  const py::list buffers = parts[1];
  number(buffers.size());
  for (const py::handle buffer : buffers) {
    out_.buffers.push_back(std::make_unique<py::buffer_info>(py::reinterpret_borrow<py::buffer>(buffer).request()));
    const py::buffer_info& info = *out_.buffers.back();
    number(static_cast<std::uint64_t>(info.size * info.itemsize));
    run(info.ptr, static_cast<std::size_t>(info.size * info.itemsize));
  }
  const py::list tensors = parts[2];
  number(tensors.size());
  for (const py::handle each : tensors) tensor(each.cast<at::Tensor>());
}

bool Encoder::scalar(PyObject* object) {
  if (object == Py_None) return mark(Mark::kNone), true;
  if (object == Py_False) return mark(Mark::kFalse), true;
  if (object == Py_True) return mark(Mark::kTrue), true;
  if (PyLong_CheckExact(object)) return integer(object), true;
  if (PyUnicode_CheckExact(object)) return string(object), true;
  if (PyBytes_CheckExact(object) || PyByteArray_CheckExact(object)) return bytes(object), true;
  if (PyFloat_CheckExact(object)) {
    const double number = PyFloat_AS_DOUBLE(object);
    mark(Mark::kFloat);
    return raw(&number, sizeof(number)), true;
  }
  if (PyComplex_CheckExact(object)) {
    const Py_complex number = PyComplex_AsCComplex(object);
    mark(Mark::kComplex);
    return raw(&number, sizeof(number)), true;
  }
  return false;
}

bool Encoder::sequence(PyObject* object) {
  if (PyDict_CheckExact(object)) return dict(object), true;
  if (PyList_CheckExact(object)) return items(Mark::kList, object), true;
  if (PyTuple_CheckExact(object)) return items(Mark::kTuple, object), true;
  if (Py_IS_TYPE(object, &PySet_Type)) return items(Mark::kSet, object), true;
  if (Py_IS_TYPE(object, &PyFrozenSet_Type)) return items(Mark::kFrozenSet, object), true;
  return false;
}

// Strided ones of a dtype that we know; others (sparse, quantized, nested, subclasses) are for pickle.
bool plain_tensor(PyObject* object) {
  if (!THPVariable_CheckExact(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  const auto scalar = static_cast<std::size_t>(tensor.scalar_type());
  return tensor.layout() == c10::kStrided && !tensor.is_nested() && scalar < kDTypeOfScalar.size() &&
         kDTypeOfScalar[scalar] >= 0;
}

void Encoder::value(PyObject* object) {
  if (scalar(object)) return;
  const RecursionGuard guard(" while a message is encoded");
  if (sequence(object)) return;
  if (plain_tensor(object)) return tensor(THPVariable_Unpack(object));
  pickle(object);
}

}  // namespace

void encode(const py::object& value, std::size_t head_limit, Parcel& out) {
  Encoder encoder(out);
  encoder.value(value.ptr());
  if (encoder.pickled()) encoder.check_memory_of_tensors();
  Preface preface;
  preface.header_bytes = out.head.size() - sizeof(Preface);
  out.head.resize(aligned(out.head.size()));
  const bool split = out.head.size() > head_limit;
  preface.whole = split || encoder.pickled() ? 1 : 0;
  std::memcpy(out.head.data(), &preface, sizeof(preface));
  const std::size_t first = split ? sizeof(Preface) : out.head.size();
  out.views.push_back({out.head.data(), nullptr, 0, first});
  if (split) out.views.push_back({out.head.data() + first, nullptr, 0, out.head.size() - first});
  out.views.insert(out.views.end(), encoder.runs().begin(), encoder.runs().end());
  for (const View& view : out.views) out.bytes += view.count;
}

}  // namespace customccl::torch_shim
