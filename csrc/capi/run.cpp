#include <cstring>

#include "capi/buffers.h"
#include "capi/comm.h"
#include "capi/error.h"
#include "capi/struct_size.h"

// customccl_run: a customccl_call checked and made a Call, all on the stack.

namespace customccl::capi {

namespace {

Status refuse(Op op, const std::string& why) { return invalid(std::string(name(op)) + ": " + why); }

std::string out_of_range(const char* what, std::int32_t value, std::size_t size) {
  return std::string(what) + " is " + std::to_string(value) + ", in a communicator of " + std::to_string(size) +
         " ranks";
}

// Everything about a call but its buffers.
Status check(const customccl_call& given, int size, Call& call) {
  if (given.op < 0 || static_cast<std::size_t>(given.op) >= kOps.size()) {
    return invalid("there is no operation number " + std::to_string(given.op));
  }
  const OpInfo& op = kOps[static_cast<std::size_t>(given.op)];
  call.op = op.op;
  if (given.dtype < 0 || static_cast<std::size_t>(given.dtype) >= kDTypes.size()) {
    return refuse(op.op, "there is no dtype number " + std::to_string(given.dtype));
  }
  call.dtype = static_cast<DType>(given.dtype);
  if (given.flags != 0) return refuse(op.op, "flags must be zero, not " + std::to_string(given.flags));
  if (given.timeout_ms < 0)
    return refuse(op.op, "timeout_ms is " + std::to_string(given.timeout_ms) + "; 0 means the default");
  if (given.timeout_ms > 0) call.timeout = to_limit(given.timeout_ms);
  if (op.reduces) {
    if (given.reduce_op < 0 || static_cast<std::size_t>(given.reduce_op) >= kReduceOpNames.size()) {
      return refuse(op.op, "there is no reduce op number " + std::to_string(given.reduce_op));
    }
    call.reduce_op = static_cast<ReduceOp>(given.reduce_op);
    if (!is_defined(call.reduce_op, call.dtype)) {
      return refuse(op.op, std::string(name(call.reduce_op)) + " is not defined for " + std::string(name(call.dtype)));
    }
    call.factor = {given.factor[0], given.factor[1]};
  }
  if (op.has_root) {
    if (given.root < 0 || given.root >= size)
      return refuse(op.op, out_of_range("root", given.root, static_cast<std::size_t>(size)));
    call.root = given.root;
  }
  if (op.op == Op::kSend || op.op == Op::kRecv) {
    const bool anybody = op.op == Op::kRecv && given.peer == CUSTOMCCL_ANY_SOURCE;
    if (!anybody && (given.peer < 0 || given.peer >= size)) {
      return refuse(op.op, out_of_range("peer", given.peer, static_cast<std::size_t>(size)));
    }
    call.peer = given.peer;
    call.tag = given.tag;
  }
  return {};
}

// Who asks where a message came from pays for a task on the heap: only tasks know.
Status receive(Communicator& group, const Call& call, std::int32_t& source) {
  const auto task = std::make_shared<Task>(call, group.limit_of(call));
  group.post(task);
  group.wait(*task, Nanos(0));
  if (task->status().ok()) source = task->source();
  return task->status();
}

Status run_with_blocks(Communicator& group, Call& call, const Buffer& send, const Buffer& recv) {
  const GroupSpec& spec = group.spec();
  Blocks inputs;
  Blocks outputs;
  View input;
  View output;
  Status status =
      send.use == Use::kAll ? view_all(send, call.op, spec.size, inputs) : view_one(send, call.op, spec.rank, input);
  if (!status.ok()) return status;
  status =
      recv.use == Use::kAll ? view_all(recv, call.op, spec.size, outputs) : view_one(recv, call.op, spec.rank, output);
  if (!status.ok()) return status;
  if (send.use != Use::kNone) call.inputs = send.use == Use::kAll ? inputs.all() : std::span<const View>(&input, 1);
  if (recv.use != Use::kNone) call.outputs = recv.use == Use::kAll ? outputs.all() : std::span<const View>(&output, 1);
  return group.run(call);
}

Status run_whole(Communicator& group, Call& call, const Buffer& send, const Buffer& recv, std::int32_t* source) {
  View input;
  View output;
  if (Status status = view_one(send, call.op, group.spec().rank, input); !status.ok()) return status;
  if (Status status = view_one(recv, call.op, group.spec().rank, output); !status.ok()) return status;
  if (send.use != Use::kNone) call.inputs = {&input, 1};
  if (recv.use != Use::kNone) call.outputs = {&output, 1};
  if (source != nullptr && call.op == Op::kRecv) return receive(group, call, *source);
  return group.run(call);
}

Status run(Communicator& group, const customccl_call& given) {
  const GroupSpec& spec = group.spec();
  Call call;
  if (Status status = check(given, spec.size, call); !status.ok()) return status;
  const Traffic& traffic = kTraffic[static_cast<std::size_t>(call.op)];
  const bool elsewhere = info(call.op).has_root && spec.rank != call.root;
  const bool pairwise = call.op == Op::kAllToAll;
  if (pairwise && (given.counts == nullptr) != (given.recv_counts == nullptr)) {
    return refuse(call.op, "give both counts and recv_counts, or neither");
  }
  const Buffer send{"send",       given.send,  elsewhere ? traffic.send_elsewhere : traffic.send,
                    given.counts, given.count, call.dtype};
  const Buffer recv{"recv",
                    given.recv,
                    elsewhere ? traffic.recv_elsewhere : traffic.recv,
                    pairwise ? given.recv_counts : given.counts,
                    given.count,
                    call.dtype};
  if (send.use == Use::kAll || recv.use == Use::kAll) return run_with_blocks(group, call, send, recv);
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

customccl_code customccl_run(customccl_comm* comm, const customccl_call* call) {
  using customccl::Status;
  using namespace customccl::capi;
  return guarded([&]() -> Status {
    if (comm == nullptr || call == nullptr) return invalid("customccl_run got NULL for the communicator or the call");
    return call->size == sizeof(customccl_call) ? run(*comm->group, *call) : run_any_size(*comm->group, *call);
  });
}
