#include "c10d/parcel_reader.h"

#include <string>

#include "c10d/types.h"

namespace customccl::torch_shim {

namespace {

bool multiply(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

std::uint64_t elements_of(const TensorRecord& tensor) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : tensor.sizes) {
    check_parcel(size >= 0 && multiply(elements, static_cast<std::uint64_t>(size), elements), "size of a tensor");
  }
  return elements;
}

std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size(); i-- > 1;) {
    const std::int64_t size = std::max<std::int64_t>(sizes[i], 1);
    check_parcel(!__builtin_mul_overflow(strides[i], size, &strides[i - 1]), "size of a tensor");
  }
  return strides;
}

// A dense tensor reaches exactly as far as it has elements. Without elements it is contiguous, and has no need to tell strides.
void check_dense(const TensorRecord& tensor, std::uint64_t elements) {
  check_parcel(elements != 0, "strides of a tensor");
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    const auto steps = static_cast<std::uint64_t>(tensor.sizes[i] - 1);
    std::uint64_t reach = 0;
    check_parcel(tensor.strides[i] >= 0 && multiply(steps, static_cast<std::uint64_t>(tensor.strides[i]), reach) &&
                     !__builtin_add_overflow(span, reach, &span),
                 "strides of a tensor");
  }
  check_parcel(span == elements, "strides of a tensor");
}

}  // namespace

void garbled(const char* what) { C10_THROW_ERROR(ValueError, std::string("customccl: a message is garbled: ") + what); }

const std::byte* ParcelReader::raw(std::uint64_t bytes) {
  check_parcel(bytes <= left_.size(), "its header is too short");
  const std::byte* data = left_.data();
  left_ = left_.subspan(bytes);
  return data;
}

std::uint64_t ParcelReader::number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*raw(1));
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  garbled("a number");
}

std::uint64_t ParcelReader::count() {
  const std::uint64_t value = number();
  check_parcel(value <= left_.size(), "a count");
  return value;
}

TensorRecord ParcelReader::tensor() {
  TensorRecord tensor;
  const std::uint64_t dtype = number();
  check_parcel(dtype < kScalarTypes.size(), "unknown dtype");
  tensor.type = kScalarTypes[dtype].first;
  check_parcel(number() == static_cast<std::uint64_t>(c10::DeviceType::CPU), "a tensor of another device");
  number();  // of the processor: there is only one
  tensor.sizes.resize(count());
  for (std::int64_t& size : tensor.sizes) size = static_cast<std::int64_t>(number());
  const std::uint64_t elements = elements_of(tensor);
  if (number() == 0) {
    tensor.strides = contiguous_strides(tensor.sizes);
  } else {
    tensor.strides.resize(tensor.sizes.size());
    for (std::int64_t& stride : tensor.strides) stride = static_cast<std::int64_t>(number());
    check_dense(tensor, elements);
  }
  check_parcel(multiply(elements, c10::elementSize(tensor.type), tensor.bytes), "size of a tensor");
  return tensor;
}

}  // namespace customccl::torch_shim
