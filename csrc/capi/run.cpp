#include <cstring>

#include "capi/buffers.h"
#include "capi/comm.h"
#include "capi/error.h"
#include "capi/struct_size.h"

// customccl_run: a customccl_call checked and made a Call, all on the stack.

namespace customccl::capi {

namespace {

[[gnu::cold]] Status refuse(Op op, const std::string& why) { return invalid(std::string(name(op)) + ": " + why); }

[[gnu::cold]] std::string out_of_range(const char* what, std::int32_t value, std::size_t size) {
  return std::string(what) + " is " + std::to_string(value) + ", in a communicator of " + std::to_string(size) +
         " ranks";
}

[[gnu::cold]] Status refuse_own_block(std::size_t sent, std::size_t expected) {
  return refuse(Op::kAllToAll, "this rank sends " + std::to_string(sent) + " elements to itself, and expects " +
                                   std::to_string(expected) + " from itself");
}

bool outside(std::int32_t value, std::size_t size) { return static_cast<std::uint32_t>(value) >= size; }

// Everything about a call but its buffers.
Status check(const customccl_call& given, std::size_t size, Call& call) {
  if (outside(given.op, kOps.size())) {
    return invalid("there is no operation number " + std::to_string(given.op));
  }
  const OpInfo& op = kOps[static_cast<std::size_t>(given.op)];
  call.op = op.op;
  if (op.op != Op::kBarrier) {  // which has none: the same for all ranks, whatever they give
    if (outside(given.dtype, kDTypes.size())) {
      return refuse(op.op, "there is no dtype number " + std::to_string(given.dtype));
    }
    call.dtype = static_cast<DType>(given.dtype);
  }
  if (given.flags != 0) return refuse(op.op, "flags must be zero, not " + std::to_string(given.flags));
  if (given.timeout_ms < 0)
    return refuse(op.op, "timeout_ms is " + std::to_string(given.timeout_ms) + "; 0 means the default");
  if (given.timeout_ms > 0) call.timeout = to_limit(std::chrono::milliseconds(given.timeout_ms));
  if (op.reduces) {
    if (outside(given.reduce_op, kReduceOpNames.size())) {
      return refuse(op.op, "there is no reduce op number " + std::to_string(given.reduce_op));
    }
    call.reduce_op = static_cast<ReduceOp>(given.reduce_op);
    if (!is_defined(call.reduce_op, call.dtype)) {
      return refuse(op.op, std::string(name(call.reduce_op)) + " is not defined for " + std::string(name(call.dtype)));
    }
    call.factor = {given.factor[0], given.factor[1]};
  }
  if (op.has_root) {
    if (outside(given.root, size)) return refuse(op.op, out_of_range("root", given.root, size));
    call.root = given.root;
  }
  if (is_message(op.op)) {
    const bool anybody = op.op == Op::kRecv && given.peer == CUSTOMCCL_ANY_SOURCE;
    if (!anybody && outside(given.peer, size)) return refuse(op.op, out_of_range("peer", given.peer, size));
    call.peer = given.peer;
    call.tag = given.tag;
  }
  return {};
}

[[gnu::hot]] Status run_with_blocks(Communicator& group, Call& call, Buffer send, Buffer recv) {
  const GroupSpec& spec = group.spec();
  Blocks inputs;
  Blocks outputs;
  View input;
  View output;
  Status status = send.use() == Use::kAll ? view_all(send, spec.size, inputs) : view_one(send, spec.rank, input);
  if (!status.ok()) return status;
  status = recv.use() == Use::kAll ? view_all(recv, spec.size, outputs) : view_one(recv, spec.rank, output);
  if (!status.ok()) return status;
  if (send.use() != Use::kNone) call.inputs = send.use() == Use::kAll ? inputs.all() : std::span<const View>(&input, 1);
  if (recv.use() != Use::kNone)
    call.outputs = recv.use() == Use::kAll ? outputs.all() : std::span<const View>(&output, 1);
  return group.run(call);
}

Status run_whole(Communicator& group, Call& call, Buffer send, Buffer recv, std::int32_t* source) {
  View input;
  View output;
  const int rank = group.spec().rank;
  if (Status status = view_one(send, rank, input); !status.ok()) return status;
  if (Status status = view_one(recv, rank, output); !status.ok()) return status;
  if (send.use() != Use::kNone) call.inputs = {&input, 1};
  if (recv.use() != Use::kNone) call.outputs = {&output, 1};
  return group.run(call, call.op == Op::kRecv ? source : nullptr);
}

[[gnu::hot]] Status run(Communicator& group, const customccl_call& given) {
  const GroupSpec& spec = group.spec();
  Call call;
  if (Status status = check(given, static_cast<std::size_t>(spec.size), call); !status.ok()) return status;
  const Traffic& traffic = kTraffic[static_cast<std::size_t>(call.op)];
  const bool elsewhere = info(call.op).has_root && spec.rank != call.root;
  if (call.op == Op::kAllToAll && (given.counts == nullptr) != (given.recv_counts == nullptr)) {
    return refuse(call.op, "give both counts and recv_counts, or neither");
  }
  if (call.op == Op::kAllToAll && given.counts != nullptr && given.counts[spec.rank] != given.recv_counts[spec.rank]) {
    return refuse_own_block(given.counts[spec.rank], given.recv_counts[spec.rank]);
  }
  const Buffer send(given, Buffer::kSend, elsewhere ? traffic.send_elsewhere : traffic.send);
  const Buffer recv(given, Buffer::kRecv, elsewhere ? traffic.recv_elsewhere : traffic.recv);
  if (send.use() == Use::kAll || recv.use() == Use::kAll) return run_with_blocks(group, call, send, recv);
  Status status = run_whole(group, call, send, recv, given.source);
  // The root of a broadcast has its result as well, if it wants it somewhere else.
  const bool copies = call.op == Op::kBroadcast && !elsewhere && given.recv != nullptr && given.recv != given.send;
  if (copies && status.ok() && given.count != 0) std::memcpy(given.recv, given.send, given.count * size_of(call.dtype));
  return status;
}

Status run_any_size(Communicator& group, const customccl_call& given) {
  customccl_call known{};
  if (Status status = take_struct(&given, "customccl_call", known); !status.ok()) return status;
  return run(group, known);
}

}  // namespace

}  // namespace customccl::capi

[[gnu::hot]] customccl_code customccl_run(customccl_comm* comm, const customccl_call* call) {
  using customccl::Status;
  using namespace customccl::capi;
  return guarded([&]() -> Status {
    if (comm == nullptr || call == nullptr) return invalid("customccl_run got NULL for the communicator or the call");
    return call->size == sizeof(customccl_call) ? run(*comm->group, *call) : run_any_size(*comm->group, *call);
  });
}
