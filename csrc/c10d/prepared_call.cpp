#include "c10d/prepared_call.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "c10d/tensor_checks.h"
#include "c10d/types.h"
#include "kernels/strided.h"

namespace customccl::torch_shim {

namespace {

std::string_view op_name(const Call& call) { return name(call.op); }

// Where the tensor's first element lies. The tensor's own data_ptr() asks whether there is storage by a virtual call, and for the size
// of an element once more. Inputs, too, as if to be written: a storage that shares its memory until then (torch._lazy_clone) would leave
// that memory to the others when an output in it is asked for next.
std::byte* first_element(const at::Tensor& tensor, std::size_t element) {
  const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
  void* data = nullptr;
  if (C10_LIKELY(static_cast<bool>(storage))) data = storage.mutable_data();
  if (C10_UNLIKELY(data == nullptr)) {
    check_memory(tensor);
    return nullptr;
  }
  const std::size_t begin = static_cast<std::size_t>(tensor.storage_offset()) * element;
  if (C10_UNLIKELY(reach_beyond(storage, begin, static_cast<std::size_t>(tensor.numel()), element)))
    check_memory(tensor);
  return static_cast<std::byte*>(data) + begin;
}

bool same_elements(const View& a, const View& b, std::size_t element) {
  if (a.count != b.count || a.contiguous() != b.contiguous()) return false;
  if (a.contiguous()) return a.at(0, element) == b.at(0, element);
  return a.data == b.data && a.begin == b.begin &&
         std::ranges::equal(a.layout->dims, b.layout->dims,
                            [](const Dim& x, const Dim& y) { return x.size == y.size && x.stride == y.stride; });
}

}  // namespace

void refuse_scalar_type(c10::ScalarType scalar) {
  TORCH_CHECK_TYPE(false, "customccl: tensors of dtype ", c10::toString(scalar),
                   " cannot be sent; send their bytes: tensor.view(torch.uint8)");
}

void refuse_reduce_op(const ::c10d::ReduceOp& op) {
  TORCH_CHECK_VALUE(false, "customccl: unknown reduce op ", static_cast<int>(op.op_));
}

void PreparedCall::refuse_dtype(DType dtype) const {
  TORCH_CHECK_TYPE(false, "customccl: ", op_name(call_), " got tensors of different dtypes: ", name(call_.dtype),
                   " and ", name(dtype));
}

const Layout* PreparedCall::layout_of(const at::Tensor& tensor) {
  Layout layout;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    const Dim dim{tensor.size(i), tensor.stride(i)};
    if (dim.size == 1) continue;
    if (!layout.dims.empty() && layout.dims.back().stride == dim.size * dim.stride) {
      layout.dims.back() = {layout.dims.back().size * dim.size, dim.stride};
    } else {
      layout.dims.push_back(dim);
    }
  }
  if (layout.dims.size() == 1 && layout.dims[0].stride == 1) return nullptr;
  layouts_.push_front(std::move(layout));
  return &layouts_.front();
}

void PreparedCall::check_kind(const at::Tensor& tensor) const {
  TORCH_CHECK_VALUE(tensor.defined(), "customccl: ", op_name(call_), " got an undefined tensor");
  TORCH_CHECK_VALUE(
      tensor.device().is_cpu(), "customccl: ", op_name(call_), " got a tensor on ", tensor.device(),
      "; this backend serves CPU tensors. For CUDA tensors use a group such as \"cpu:customccl,cuda:nccl\"");
  TORCH_CHECK_VALUE(tensor.layout() == c10::kStrided, "customccl: ", op_name(call_), " got a tensor of layout ",
                    tensor.layout(), "; it takes dense (strided) tensors");
  TORCH_CHECK_VALUE(!tensor.is_conj() && !tensor.is_neg(), "customccl: ", op_name(call_),
                    " got a lazily conjugated or negated tensor; call resolve_conj() or resolve_neg() first");
}

void PreparedCall::check_overlap(const at::Tensor& output) const {
  TORCH_CHECK_VALUE(
      !overlaps_itself(output), "customccl: ", op_name(call_),
      " cannot write to a tensor of which several elements are the same memory, as of an expanded one (sizes ",
      output.sizes(), ", strides ", output.strides(), "). Use clone()");
}

// Of one that is not contiguous only the first element is looked at: the rows of such tensors may lie between each other.
void PreparedCall::check_apart() const {
  const std::size_t element = size_of(call_.dtype);
  c10::SmallVector<Extent, 8> extents;
  for (const View& view : outputs_) {
    if (view.count == 0) continue;
    extents.push_back(view.contiguous() ? customccl::extent_of(view, element) : Extent{view.data, view.data + element});
  }
  std::ranges::sort(extents, {}, &Extent::begin);
  const auto met = std::ranges::adjacent_find(extents, [](const Extent& a, const Extent& b) { return a.meets(b); });
  TORCH_CHECK_VALUE(
      met == extents.end(), "customccl: ", op_name(call_),
      " cannot write to output tensors that share memory, as in [tensor] * size. Give each rank's its own");
}

View PreparedCall::view_of(const at::Tensor& tensor, bool output) {
  if (C10_UNLIKELY(!is_plain(tensor))) check_kind(tensor);  // says what is wrong, if anything is
  const DType dtype = dtype_of(tensor.scalar_type());
  take_dtype(dtype);
  const Layout* layout = nullptr;
  if (C10_UNLIKELY(!tensor.is_contiguous())) {
    check_memory(tensor);
    if (output) check_overlap(tensor);
    layout = layout_of(tensor);
  }
  return {first_element(tensor, size_of(dtype)), layout, 0, static_cast<std::size_t>(tensor.numel())};
}

void PreparedCall::split(Views& views, const View& whole, std::size_t parts) {
  const std::size_t count = whole.count / parts;
  for (std::size_t i = 0; i < parts; ++i) views.push_back(whole.part(i * count, count));
}

void PreparedCall::split_input(const at::Tensor& tensor, std::size_t parts) {
  split(inputs_, view_of(tensor, false), parts);
}
void PreparedCall::split_output(const at::Tensor& tensor, std::size_t parts) {
  split(outputs_, view_of(tensor, true), parts);
}

void PreparedCall::add_splits(const at::Tensor& tensor, std::span<const std::int64_t> rows, int parts, bool output) {
  const char* what = output ? "output" : "input";
  const View whole = view_of(tensor, output);
  Views& views = output ? outputs_ : inputs_;
  const std::int64_t have = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    TORCH_CHECK_VALUE(have % parts == 0, "customccl: all_to_all cannot split ", have, " rows of the ", what, " (sizes ",
                      tensor.sizes(), ") evenly among ", parts, " ranks; give split sizes");
    return split(views, whole, static_cast<std::size_t>(parts));
  }
  TORCH_CHECK_VALUE(rows.size() == static_cast<std::size_t>(parts), "customccl: all_to_all needs one ", what,
                    " split size per rank: got ", rows.size(), " in a group of ", parts);
  std::int64_t sum = 0;
  for (const std::int64_t part : rows) {
    TORCH_CHECK_VALUE(part >= 0, "customccl: all_to_all got a negative ", what, " split size: ", part);
    if (__builtin_add_overflow(sum, part, &sum)) sum = std::numeric_limits<std::int64_t>::max();
  }
  TORCH_CHECK_VALUE(sum == have, "customccl: all_to_all got ", what, " split sizes that sum to ", sum, ", but the ",
                    what, " tensor has ", have, " rows (sizes ", tensor.sizes(), ")");
  const std::size_t row = have == 0 ? 0 : whole.count / static_cast<std::size_t>(have);
  std::size_t first = 0;
  for (const std::int64_t part : rows) {
    const std::size_t count = static_cast<std::size_t>(part) * row;
    views.push_back(whole.part(first, count));
    first += count;
  }
}

void PreparedCall::copy_overlapped(int rank) {
  const std::size_t element = size_of(call_.dtype);
  const auto peer_of = [rank](const Views& views, std::size_t index) {
    return views.size() == 1 ? static_cast<std::size_t>(rank) : index;
  };
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    View& input = inputs_[i];
    for (std::size_t j = 0; j < outputs_.size(); ++j) {
      const View& output = outputs_[j];
      if (input.count == 0 || output.count == 0) continue;
      if (!customccl::extent_of(input, element).meets(customccl::extent_of(output, element))) continue;
      if (peer_of(inputs_, i) == peer_of(outputs_, j) && same_elements(input, output, element)) continue;
      copy_input(input);
      break;
    }
  }
}

void PreparedCall::copy_input(View& input) {
  const std::size_t element = size_of(call_.dtype);
  at::Tensor& copy = copies_.emplace_front(at::empty({static_cast<std::int64_t>(input.count * element)}, at::kByte));
  auto* data = static_cast<std::byte*>(copy.mutable_data_ptr());
  pack(data, input, 0, input.count, element, Store::kPlain);
  input = {data, nullptr, 0, input.count};
}

void PreparedCall::copy_inputs_on_outputs_of(const PreparedCall& other) {
  if (!inputs_extent().meets(other.outputs_extent())) return;
  if (std::exchange(in_place_, false)) inputs_ = outputs_;
  for (View& input : inputs_) {
    const Extent extent = customccl::extent_of(input, size_of(call_.dtype));
    const auto lies_there = [&](const View& output) {
      return output.count != 0 && customccl::extent_of(output, size_of(other.call_.dtype)).meets(extent);
    };
    if (input.count != 0 && std::ranges::any_of(other.outputs_, lies_there)) copy_input(input);
  }
}

// Sorted by where they begin, so that many tensors that lie apart cost next to nothing.
void PreparedCall::copy_inputs_on_outputs_of_others(std::span<PreparedCall> calls) {
  struct Part {
    Extent extent;
    std::size_t call;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].outputs_extent().begin != nullptr) parts.push_back({calls[i].outputs_extent(), i});
    if (!calls[i].in_place_ && calls[i].inputs_extent().begin != nullptr)
      parts.push_back({calls[i].inputs_extent(), i});
  }
  std::ranges::sort(parts, std::less<>(), [](const Part& part) { return part.extent.begin; });
  // What reaches farthest of all that begins no later. While all lie apart, parts of other calls end before it begins.
  Part farthest{};
  bool apart = true;
  for (const Part& part : parts) {
    apart = apart && (part.call == farthest.call || part.extent.begin >= farthest.extent.end);
    if (part.extent.end > farthest.extent.end) farthest = part;
  }
  if (apart) return;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) calls[i].copy_inputs_on_outputs_of(calls[j]);
  }
}

void PreparedCall::check_own_block(int rank) const {
  const auto own = static_cast<std::size_t>(rank);
  TORCH_CHECK_VALUE(inputs_[own].count == outputs_[own].count, "customccl: ", op_name(call_), " sends ",
                    inputs_[own].count, " elements from rank ", rank, " of the group to itself, and expects ",
                    outputs_[own].count);
}

void PreparedCall::set_root(std::int64_t root, int size, std::int64_t root_tensor) {
  TORCH_CHECK_VALUE(root >= 0 && root < size, "customccl: ", op_name(call_), " got root rank ", root, " in a group of ",
                    size, " ranks");
  TORCH_CHECK_VALUE(root_tensor == 0, "customccl: ", op_name(call_), " got root tensor ", root_tensor,
                    ", but each rank gives one tensor");
  call_.root = static_cast<int>(root);
}

void PreparedCall::refuse_undefined() const {
  TORCH_CHECK_VALUE(false, "customccl: ", op_name(call_), " with ", name(call_.reduce_op), " is not defined for dtype ",
                    name(call_.dtype));
}

void PreparedCall::take_factor(const ::c10d::ReduceOp& op) {
  const auto* factor = dynamic_cast<const PreMulSum*>(op.supplement_.get());
  TORCH_CHECK_VALUE(factor != nullptr, "customccl: PREMUL_SUM needs a factor");
  call_.factor = factor->tensor_factor.defined() ? std::complex<double>(factor->tensor_factor.item().toComplexDouble())
                                                 : std::complex<double>(factor->double_factor);
  TORCH_CHECK_VALUE(call_.factor.imag() == 0 || info(call_.dtype).kind == DTypeKind::kComplex,
                    "customccl: ", op_name(call_), " with PREMUL_SUM takes a real factor for dtype ", name(call_.dtype),
                    ", not ", call_.factor, " (torch.distributed hands over the real view of a complex tensor)");
}

}  // namespace customccl::torch_shim
