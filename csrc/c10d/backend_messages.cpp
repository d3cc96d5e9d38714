#include "c10d/launch.h"

// send and recv.

namespace customccl::torch_shim {

CustomBackend::WorkPtr CustomBackend::message(Op op, Tensors& tensors, int peer, int tag, Label label) {
  TORCH_CHECK_VALUE((peer >= 0 && peer < getSize()) || label.type == ::c10d::OpType::RECVANYSOURCE,
                    "customccl: ", name(op), " names rank ", peer, " in a group of ", getSize(), " ranks");
  TORCH_CHECK_VALUE(tag >= 0, "customccl: ", name(op), " got the tag ", tag, "; tags are not negative");
  const at::Tensor& tensor = only(tensors, op, "tensor");
  PreparedCall prepared(op);
  op == Op::kSend ? prepared.add_input(tensor) : prepared.add_output(tensor);
  prepared.call().peer = peer;
  prepared.call().tag = tag;
  return launch(std::move(prepared), true, label, [&] { return Held{tensors, tensors}; });
}

CustomBackend::WorkPtr CustomBackend::send(Tensors& tensors, int destination, int tag) {
  return message(Op::kSend, tensors, destination, tag, {::c10d::OpType::SEND, "customccl:send"});
}

CustomBackend::WorkPtr CustomBackend::recv(Tensors& tensors, int source, int tag) {
  return message(Op::kRecv, tensors, source, tag, {::c10d::OpType::RECV, "customccl:recv"});
}

CustomBackend::WorkPtr CustomBackend::recvAnysource(Tensors& tensors, int tag) {
  return message(Op::kRecv, tensors, kAnySource, tag, {::c10d::OpType::RECVANYSOURCE, "customccl:recvAnySource"});
}

}  // namespace customccl::torch_shim
