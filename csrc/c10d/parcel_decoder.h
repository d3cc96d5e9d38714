#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <vector>

#include "base/view.h"
#include "c10d/parcel_reader.h"

namespace customccl::torch_shim {

// Makes the value of an arrived message. Nothing in it is trusted: counts are checked against what is there.
//
// Two ways. The runs are there already (`base`): tensors share that memory and keep it alive. Or they are still with the sender: then decoding
// makes room for each, and lists it in room(); the caller has the bytes put there, and calls finish(). Holds the GIL throughout.
class ParcelDecoder {
 public:
  struct Rules {
    bool weights_only = false;  // refuse pickles
    pybind11::object into;      // tensors to fill, in containers like those of the message; or None
  };

  // `header`: behind the preface. `base`: the runs, `run_bytes` of them, or nullptr. `keep` owns both.
  ParcelDecoder(std::span<const std::byte> header, std::byte* base, std::uint64_t run_bytes, std::shared_ptr<void> keep,
                Rules rules);

  pybind11::object decode();
  const std::vector<View>& room() const { return room_; }
  // Copies what could not be received in place.
  void finish();

 private:
  pybind11::object value(const pybind11::object& into);
  pybind11::object string();
  pybind11::object big_integer();
  pybind11::object bytes_apart(bool array);
  pybind11::object items(Mark kind, const pybind11::object& into);
  pybind11::object dict(const pybind11::object& into);
  void keep_all(bool all_differ) const;
  pybind11::object pickle(const pybind11::object& into);
  // `target`: what it may be received into, or nullptr.
  at::Tensor tensor(const at::Tensor* target);
  pybind11::object tensor_into(const pybind11::object& into);

  std::byte* run(std::uint64_t bytes);
  void make_room(void* data, std::uint64_t bytes);

  ParcelReader reader_;
  std::byte* base_;
  std::uint64_t left_;
  std::shared_ptr<void> keep_;
  Rules rules_;
  std::vector<View> room_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
  std::byte waste_[kRunAlignment]{};  // where pads go
};

void bind_shared_bytes(pybind11::module_& module);

}  // namespace customccl::torch_shim
