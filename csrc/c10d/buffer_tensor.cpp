#include "c10d/buffer_tensor.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <memory>
#include <string_view>

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

// The code of one element, without the marks that say "native byte order".
std::string_view element_code(const Py_buffer& view) {
  std::string_view code = view.format == nullptr ? "B" : view.format;
  if (!code.empty() && (code[0] == '@' || code[0] == '=' || code[0] == '<')) code.remove_prefix(1);
  return code;
}

c10::ScalarType integer_of(Py_ssize_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: return is_signed ? c10::ScalarType::Char : c10::ScalarType::Byte;
    case 2: return is_signed ? c10::ScalarType::Short : c10::ScalarType::UInt16;
    case 4: return is_signed ? c10::ScalarType::Int : c10::ScalarType::UInt32;
    case 8: return is_signed ? c10::ScalarType::Long : c10::ScalarType::UInt64;
    default: return c10::ScalarType::Undefined;
  }
}

c10::ScalarType scalar_type_of(const Py_buffer& view) {
  const std::string_view code = element_code(view);
  if (code == "Zf") return c10::ScalarType::ComplexFloat;
  if (code == "Zd") return c10::ScalarType::ComplexDouble;
  if (code.size() != 1) return c10::ScalarType::Undefined;
  switch (code[0]) {
    case '?': return c10::ScalarType::Bool;
    case 'e': return c10::ScalarType::Half;
    case 'f': return c10::ScalarType::Float;
    case 'd': return c10::ScalarType::Double;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return integer_of(view.itemsize, true);
    case 'c':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return integer_of(view.itemsize, false);
    default: return c10::ScalarType::Undefined;
  }
}

struct Release {
  void operator()(Py_buffer* view) const {
    // The last tensor may go on a thread without the GIL, or after the interpreter.
    if (Py_IsInitialized() != 0) {
      const py::gil_scoped_acquire acquire;
      PyBuffer_Release(view);
    }
    delete view;  // NOLINT(cppcoreguidelines-owning-memory): PyBuffer_Release does not free it
  }
};

}  // namespace

at::Tensor tensor_of_buffer(const py::object& object, bool writable) {
  const char* type = Py_TYPE(object.ptr())->tp_name;
  TORCH_CHECK_TYPE(PyObject_CheckBuffer(object.ptr()) != 0,
                   "customccl: expected a tensor, a numpy array or a bytes-like", " object, got ", type);
  auto raw = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), raw.get(), PyBUF_RECORDS_RO) != 0) throw py::error_already_set();
  const std::shared_ptr<Py_buffer> view(raw.release(), Release());
  TORCH_CHECK_TYPE(!writable || view->readonly == 0, "customccl: a ", type, " that cannot be written is no output");
  const c10::ScalarType dtype = scalar_type_of(*view);
  TORCH_CHECK_TYPE(dtype != c10::ScalarType::Undefined, "customccl: a ", type, " of elements \"",
                   view->format == nullptr ? "" : view->format, "\" has no counterpart among torch's dtypes");
  const std::vector<std::int64_t> sizes(view->shape, view->shape + view->ndim);
  const auto options = at::TensorOptions().dtype(dtype);
  if (view->len == 0) return at::empty(sizes, options);
  const auto keep = [view](void*) {};
  if (view->strides == nullptr) return at::from_blob(view->buf, sizes, keep, options);  // consecutive, as of ctypes
  std::vector<std::int64_t> strides;
  for (int i = 0; i < view->ndim; ++i) {
    TORCH_CHECK_VALUE(view->strides[i] >= 0 && view->strides[i] % view->itemsize == 0, "customccl: a ", type,
                      " with a stride of ", view->strides[i], " bytes has no counterpart in torch; copy it");
    strides.push_back(view->strides[i] / view->itemsize);
  }
  return at::from_blob(view->buf, sizes, strides, keep, options);
}

}  // namespace customccl::torch_shim
