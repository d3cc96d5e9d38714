#pragma once

#include <c10/core/Storage.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "base/view.h"
#include "c10d/parcel_format.h"

namespace customccl::torch_shim {

// A Python value ready to be sent: runs of bytes, and what keeps them alive. Made and destroyed with the GIL.
struct Parcel {
  std::vector<std::byte> head;         // preface, header and pad
  std::vector<View> views;             // the head and what follows; valid while the Parcel stays where it is
  std::uint64_t bytes = 0;             // of all views
  std::vector<c10::Storage> storages;  // of tensors
  std::vector<pybind11::object> objects;
  std::vector<std::unique_ptr<pybind11::buffer_info>> buffers;
};

// Encodes `value`: None, bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict and torch.Tensor directly,
// everything else by pickle. Tensors and long buffers are not copied; tensors whose elements are not dense are.
// `head_limit`: what fits into the request of a large message. Throws TypeError, ValueError or what pickle raises.
void encode(const pybind11::object& value, std::size_t head_limit, Parcel& out);

}  // namespace customccl::torch_shim
