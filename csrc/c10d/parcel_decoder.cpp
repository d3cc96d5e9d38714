#include "c10d/parcel_decoder.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>

#include "c10d/types.h"

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

[[noreturn]] void garbled(const char* what) {
  C10_THROW_ERROR(ValueError, std::string("customccl: a message is garbled: ") + what);
}

void check(bool good, const char* what) {
  if (!good) garbled(what);
}

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

c10::ScalarType scalar_type_of(std::uint64_t dtype) {
  check(dtype < kScalarTypes.size(), "unknown dtype");
  return kScalarTypes[dtype].first;
}

// Elements of a tensor, whose strides must be those of a dense one.
std::uint64_t elements_of(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : sizes) {
    check(size >= 0 && !__builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements),
          "size of a tensor");
  }
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < sizes.size() && elements != 0; ++i) {
    std::uint64_t reach = 0;
    check(strides[i] >= 0 &&
              !__builtin_mul_overflow(static_cast<std::uint64_t>(sizes[i] - 1), static_cast<std::uint64_t>(strides[i]),
                                      &reach) &&
              !__builtin_add_overflow(span, reach, &span),
          "strides of a tensor");
  }
  check(elements == 0 || span == elements, "strides of a tensor");
  return elements;
}

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    check(!__builtin_mul_overflow(strides[i], std::max<std::int64_t>(sizes[i], 1), &strides[i - 1]),
          "size of a tensor");
  }
  return strides;
}

}  // namespace

ParcelDecoder::ParcelDecoder(std::span<const std::byte> header, std::byte* base, std::uint64_t run_bytes,
                             std::shared_ptr<void> keep, Rules rules)
    : header_(header), base_(base), left_(run_bytes), keep_(std::move(keep)), rules_(std::move(rules)) {}

const std::byte* ParcelDecoder::raw(std::uint64_t bytes) {
  check(bytes <= header_.size(), "its header is too short");
  const std::byte* data = header_.data();
  header_ = header_.subspan(bytes);
  return data;
}

std::uint64_t ParcelDecoder::number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*raw(1));
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  garbled("a number");
}

// Of things that take at least a byte each.
std::uint64_t ParcelDecoder::count() {
  const std::uint64_t value = number();
  check(value <= header_.size(), "a count");
  return value;
}

void ParcelDecoder::make_room(void* data, std::uint64_t bytes) {
  check(aligned(bytes) >= bytes && aligned(bytes) <= left_, "its runs are too short");
  left_ -= aligned(bytes);
  if (bytes == 0) return;
  room_.push_back({static_cast<std::byte*>(data), nullptr, 0, bytes});
  if (aligned(bytes) != bytes) room_.push_back({waste_, nullptr, 0, aligned(bytes) - bytes});
}

// The next run, where it lies already.
std::byte* ParcelDecoder::run(std::uint64_t bytes) {
  check(aligned(bytes) >= bytes && aligned(bytes) <= left_, "its runs are too short");
  std::byte* data = base_;
  left_ -= aligned(bytes);
  base_ += aligned(bytes);
  return data;
}

py::object ParcelDecoder::string() {
  const std::uint64_t bytes = count();
  const auto* data = reinterpret_cast<const char*>(raw(bytes));
  return checked(PyUnicode_DecodeUTF8(data, static_cast<Py_ssize_t>(bytes), "surrogatepass"));
}

py::object ParcelDecoder::big_integer() {
  const std::uint64_t bytes = count();
  const py::bytes data(reinterpret_cast<const char*>(raw(bytes)), bytes);
  return py::handle(reinterpret_cast<PyObject*>(&PyLong_Type))
      .attr("from_bytes")(data, "little", py::arg("signed") = true);
}

py::object ParcelDecoder::bytes_apart(bool array) {
  const std::uint64_t bytes = number();
  check(bytes <= left_, "its runs are too short");
  const char* from = base_ == nullptr ? nullptr : reinterpret_cast<const char*>(run(bytes));
  const auto length = static_cast<Py_ssize_t>(bytes);
  py::object made =
      checked(array ? PyByteArray_FromStringAndSize(from, length) : PyBytes_FromStringAndSize(from, length));
  if (from == nullptr) {
    make_room(array ? PyByteArray_AS_STRING(made.ptr()) : PyBytes_AS_STRING(made.ptr()), bytes);
  }
  return made;
}

py::object ParcelDecoder::items(Mark kind, const py::object& into) {
  const std::uint64_t length = count();
  const bool lists = py::isinstance<py::list>(into) || py::isinstance<py::tuple>(into);
  const py::object none = py::none();
  py::list list(length);
  for (std::uint64_t i = 0; i < length; ++i) {
    const bool given = lists && i < py::len(into);
    list[i] = value(given ? py::object(into[py::int_(i)]) : none);
  }
  if (kind == Mark::kList) return list;
  if (kind == Mark::kTuple) return checked(PyList_AsTuple(list.ptr()));
  return checked(kind == Mark::kSet ? PySet_New(list.ptr()) : PyFrozenSet_New(list.ptr()));
}

py::object ParcelDecoder::dict(const py::object& into) {
  const std::uint64_t length = count();
  const bool dicts = py::isinstance<py::dict>(into);
  const py::object none = py::none();
  py::dict made;
  for (std::uint64_t i = 0; i < length; ++i) {
    const py::object key = value(none);
    const bool given = dicts && py::reinterpret_borrow<py::dict>(into).contains(key);
    made[key] = value(given ? py::object(into[key]) : none);
  }
  return made;
}

at::Tensor ParcelDecoder::make_tensor(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                                      c10::ScalarType type) {
  const std::uint64_t elements = elements_of(sizes, strides);
  std::uint64_t bytes = 0;
  check(!__builtin_mul_overflow(elements, c10::elementSize(type), &bytes) && bytes <= left_, "its runs are too short");
  const c10::IntArrayRef shape(sizes.data(), sizes.size());
  const c10::IntArrayRef layout(strides.data(), strides.size());
  const auto options = at::TensorOptions().dtype(type);
  if (base_ != nullptr && bytes != 0) {
    return at::from_blob(run(bytes), shape, layout, [keep = keep_](void*) {}, options);
  }
  const bool in_place = target_ != nullptr && target_->scalar_type() == type && target_->sizes() == shape &&
                        target_->strides() == layout && target_->device().is_cpu();
  at::Tensor made = in_place ? *target_ : at::empty_strided(shape, layout, options);
  make_room(made.mutable_data_ptr(), bytes);
  return made;
}

at::Tensor ParcelDecoder::tensor() {
  const c10::ScalarType type = scalar_type_of(number());
  check(number() == static_cast<std::uint64_t>(c10::DeviceType::CPU), "a tensor of another device");
  number();  // of the processor: there is only one
  const std::uint64_t dims = count();
  std::vector<std::int64_t> sizes(dims);
  for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(number());
  std::vector<std::int64_t> strides = contiguous_strides(sizes);
  if (number() != 0) {
    for (std::int64_t& stride : strides) stride = static_cast<std::int64_t>(number());
  }
  return make_tensor(sizes, strides, type);
}

py::object ParcelDecoder::tensor_into(const py::object& into) {
  if (!THPVariable_Check(into.ptr())) return py::cast(tensor());
  const at::Tensor& target = THPVariable_Unpack(into.ptr());
  target_ = &target;
  const at::Tensor arrived = tensor();
  target_ = nullptr;
  TORCH_CHECK_VALUE(arrived.sizes() == target.sizes() && arrived.scalar_type() == target.scalar_type(),
                    "customccl: the message holds a tensor of ", arrived.scalar_type(), " ", arrived.sizes(),
                    " where a tensor of ", target.scalar_type(), " ", target.sizes(), " was given to be filled");
  if (arrived.const_data_ptr() != target.const_data_ptr()) copies_.emplace_back(target, arrived);
  return into;
}

py::object ParcelDecoder::pickle() {
  const py::object type = string();
  const std::uint64_t bytes = count();
  const std::byte* data = raw(bytes);
  if (rules_.weights_only) {
    throw py::value_error("customccl: the message holds a pickled " + type.cast<std::string>() +
                          ", which weights_only=True refuses");
  }
  check(base_ != nullptr, "a pickle in parts");
  py::list buffers;
  for (std::uint64_t left = count(); left != 0; --left) {
    const std::uint64_t length = number();
    buffers.append(py::cast(SharedBytes{keep_, run(length), length}));
  }
  py::list tensors;
  for (std::uint64_t left = count(); left != 0; --left) {
    check(static_cast<Mark>(*raw(1)) == Mark::kTensor, "a tensor of a pickle");
    tensors.append(tensor());
  }
  const py::object load = py::module_::import("torch_customccl.messages.objects").attr("load");
  return load(py::bytes(reinterpret_cast<const char*>(data), bytes), buffers, tensors);
}

py::object ParcelDecoder::value(const py::object& into) {
  const auto mark = static_cast<Mark>(*raw(1));
  switch (mark) {
    case Mark::kNone: return py::none();
    case Mark::kFalse: return py::bool_(false);
    case Mark::kTrue: return py::bool_(true);
    case Mark::kInt: {
      const std::uint64_t zigzag = number();
      return checked(PyLong_FromLongLong(static_cast<long long>((zigzag >> 1) ^ (~(zigzag & 1) + 1))));
    }
    case Mark::kBigInt: return big_integer();
    case Mark::kFloat: {
      double number = 0;
      std::memcpy(&number, raw(sizeof(number)), sizeof(number));
      return checked(PyFloat_FromDouble(number));
    }
    case Mark::kComplex: {
      Py_complex number;
      std::memcpy(&number, raw(sizeof(number)), sizeof(number));
      return checked(PyComplex_FromCComplex(number));
    }
    case Mark::kStr: return string();
    case Mark::kBytes: {
      const std::uint64_t bytes = count();
      return py::bytes(reinterpret_cast<const char*>(raw(bytes)), bytes);
    }
    case Mark::kBytesApart: return bytes_apart(false);
    case Mark::kByteArray: return bytes_apart(true);
    default: break;
  }
  if (Py_EnterRecursiveCall(" while a message is decoded") != 0) throw py::error_already_set();
  const struct Leave {
    ~Leave() { Py_LeaveRecursiveCall(); }
  } leave;
  switch (mark) {
    case Mark::kList:
    case Mark::kTuple:
    case Mark::kSet:
    case Mark::kFrozenSet: return items(mark, into);
    case Mark::kDict: return dict(into);
    case Mark::kTensor: return tensor_into(into);
    case Mark::kPickle: return pickle();
    default: garbled("an unknown mark");
  }
}

py::object ParcelDecoder::decode() {
  py::object made = value(rules_.into);
  check(header_.size() < kRunAlignment, "its header is too long");
  check(left_ == 0, "its runs are too long");
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
