#include "c10d/message_exchange.h"

#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>

#include <cstring>

#include "c10d/backend.h"
#include "c10d/errors.h"
#include "c10d/parcel_decoder.h"
#include "c10d/parcel_encoder.h"
#include "c10d/python_lock.h"
#include "core/mailbox.h"

// A value is encoded and decoded here, with the GIL, and travels as a parcel (core/message_lane.h), without it.

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

using Millis = std::chrono::milliseconds;

// Apart from the tags of send and recv, which are 32-bit numbers.
constexpr std::int64_t kMessageTags = std::int64_t{1} << 40;
constexpr std::size_t kHeadLimit = 32 << 10;

Call message_call(Op op, int peer, std::int64_t tag) {
  Call call;
  call.op = op;
  call.parcel = true;
  call.peer = peer;
  call.tag = kMessageTags + tag;
  return call;
}

// Where Python runs signal handlers. Only there: another thread that asks for the GIL while Python ends is unwound, which ends the process.
unsigned long main_thread = 0;

bool interrupted() {
  if (PyThread_get_thread_ident() != main_thread) return false;
  const py::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

// With the GIL: whether a handler raises, or has raised since interrupted() asked.
bool handler_raises() {
  return PyErr_Occurred() != nullptr || (PyThread_get_thread_ident() == main_thread && PyErr_CheckSignals() != 0);
}

// What a handler has raised ends the receive; the message, which nobody has seen, is there for the next one.
[[noreturn]] void end_by_handler(CustomBackend& backend, Message&& message) {
  const py::error_already_set raised;
  {
    const WithoutPythonLock without_lock;
    backend.group()->give_back(std::move(message));
  }
  throw raised;
}

void send_message(CustomBackend& backend, const py::object& value, const std::vector<int>& peers, std::int64_t tag,
                  Millis timeout) {
  Communicator& group = *backend.group();
  Parcel parcel;
  encode(value, std::min(kHeadLimit, group.parcel_limit()), parcel);
  const WithoutPythonLock without_lock;
  Call call = message_call(Op::kSend, 0, tag);
  call.inputs = parcel.views;
  call.timeout = to_limit(timeout);
  const Deadline of_all(peers.size() > 1 ? group.limit_of(call) : Nanos(0));
  for (const int peer : peers) {
    call.peer = peer;
    if (peers.size() > 1) call.timeout = std::max(of_all.left(), Nanos(1));
    TORCH_CHECK_VALUE(peer != backend.getRank() || parcel.bytes >> 32 == 0,
                      "customccl: a message of a rank to itself is limited to 4 GiB, this one has ", parcel.bytes,
                      " bytes");
    check(group.run(call));
  }
}

std::shared_ptr<Message> await_message(CustomBackend& backend, int peer, std::int64_t tag, Millis timeout) {
  const Call call = message_call(Op::kRecv, peer, tag);
  const Nanos limit = timeout.count() > 0 ? to_limit(timeout) : backend.group()->limit_of(call);
  std::shared_ptr<Message> message;
  Status status;
  bool in_vain = false;
  {
    const WithoutPythonLock without_lock;
    status = backend.group()->receive_parcel(call, limit, interrupted, message, &in_vain);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (in_vain) {
    const GroupSpec& spec = backend.group()->spec();
    const std::string from =
        peer == kAnySource ? "any rank" : "rank " + std::to_string(backend.group()->global_rank(peer));
    PyErr_SetString(
        PyExc_TimeoutError,
        ("customccl: " + status.message() + " with tag " + std::to_string(tag) + " from " + from + " to rank " +
         std::to_string(backend.group()->global_rank(spec.rank)) + " of group \"" + spec.name + "\", which goes on")
            .c_str());
    throw py::error_already_set();
  }
  check(status);
  if (handler_raises()) end_by_handler(backend, std::move(*message));  // it was not asked since the message came
  return message;
}

// Has the rest of a large message put into `room`.
void fetch(CustomBackend& backend, const std::shared_ptr<Message>& message, std::span<const View> room) {
  Call call = message_call(Op::kRecv, message->source, 0);
  call.outputs = room;
  Status status;
  {
    const WithoutPythonLock without_lock;
    status = backend.group()->fetch(call, message, interrupted);
  }
  if (!status.ok() && PyErr_Occurred() != nullptr) throw py::error_already_set();
  check(status);
}

// The rest of a message that nobody wants: its sender waits until somebody takes it.
void discard(CustomBackend& backend, const std::shared_ptr<Message>& message) {
  const WithoutPythonLock without_lock;
  check(backend.group()->fetch(message_call(Op::kRecv, message->source, 0), message));
}

// A message that is all here, `rest` of it not in its data, if a handler raises. From 4 GiB on it is lost: none that is set aside is as large.
// After fetch(), before any Python code runs, and once more at the end: decoding takes time, too.
void end_if_handler_raises(CustomBackend& backend, const Message& message, std::span<const View> rest) {
  if (!handler_raises()) return;
  const std::uint64_t total = message.header.total;
  if (total >> 32 != 0) throw py::error_already_set();
  Message whole{message.source, message.header, std::make_unique_for_overwrite<std::byte[]>(total)};
  std::byte* to = std::copy_n(message.data.get(), message.header.bytes, whole.data.get());
  for (const View& view : rest) to = std::copy_n(view.data, view.count, to);
  whole.header.kind = PacketHeader::Kind::kEager;
  whole.header.bytes = static_cast<std::uint32_t>(total);
  end_by_handler(backend, std::move(whole));
}

Preface preface_of(const Message& message) {
  Preface preface;
  const std::uint64_t there = message.header.bytes;
  TORCH_CHECK_VALUE(there >= sizeof(preface), "customccl: a message is garbled: it has no preface");
  std::memcpy(&preface, message.data.get(), sizeof(preface));
  TORCH_CHECK_VALUE(preface.magic == kParcelMagic && preface.version == kParcelVersion &&
                        preface.header_bytes <= message.header.total - sizeof(preface),
                    "customccl: a message is garbled, or of another version of torch_customccl");
  return preface;
}

py::object decode_whole(const Preface& preface, std::byte* data, std::uint64_t bytes, std::shared_ptr<void> keep,
                        ParcelDecoder::Rules rules) {
  const std::uint64_t head = aligned(sizeof(Preface) + preface.header_bytes);
  TORCH_CHECK_VALUE(head <= bytes, "customccl: a message is garbled: it is too short");
  ParcelDecoder decoder({data + sizeof(Preface), preface.header_bytes}, data + head, bytes - head, std::move(keep),
                        std::move(rules));
  py::object value = decoder.decode();
  decoder.finish();
  return value;
}

// A large one in one piece.
py::object receive_whole(CustomBackend& backend, const std::shared_ptr<Message>& message, const Preface& preface,
                         ParcelDecoder::Rules rules, bool& fetched) {
  const std::uint64_t total = message->header.total;
  const std::shared_ptr<std::byte[]> data(new std::byte[total]);
  std::memcpy(data.get(), message->data.get(), message->header.bytes);
  const View rest{data.get() + message->header.bytes, nullptr, 0, total - message->header.bytes};
  fetched = true;
  fetch(backend, message, {&rest, 1});
  end_if_handler_raises(backend, *message, {&rest, 1});
  py::object value = decode_whole(preface, data.get(), total, data, std::move(rules));
  end_if_handler_raises(backend, *message, {&rest, 1});
  return value;
}

// A large one straight into its tensors.
py::object receive_in_parts(CustomBackend& backend, const std::shared_ptr<Message>& message, const Preface& preface,
                            ParcelDecoder::Rules rules, bool& fetched) {
  const std::uint64_t rest = message->header.total - message->header.bytes;
  ParcelDecoder decoder({message->data.get() + sizeof(Preface), preface.header_bytes}, nullptr, rest, message,
                        std::move(rules));
  py::object value = decoder.decode();
  fetched = true;
  fetch(backend, message, decoder.room());
  end_if_handler_raises(backend, *message, decoder.room());
  decoder.finish();
  end_if_handler_raises(backend, *message, decoder.room());
  return value;
}

py::object receive(CustomBackend& backend, const std::shared_ptr<Message>& message, ParcelDecoder::Rules rules) {
  const bool complete = message->header.bytes == message->header.total;
  bool fetched = complete;
  try {
    const Preface preface = preface_of(*message);
    if (complete) {
      py::object value = decode_whole(preface, message->data.get(), message->header.total, message, std::move(rules));
      end_if_handler_raises(backend, *message, {});
      return value;
    }
    if (preface.whole != 0) return receive_whole(backend, message, preface, std::move(rules), fetched);
    const bool there = aligned(sizeof(preface) + preface.header_bytes) == message->header.bytes;
    TORCH_CHECK_VALUE(there, "customccl: a message is garbled: its head is incomplete");
    return receive_in_parts(backend, message, preface, std::move(rules), fetched);
  } catch (...) {
    if (!fetched) discard(backend, message);
    throw;
  }
}

py::tuple receive_message(CustomBackend& backend, int peer, std::int64_t tag, Millis timeout, bool weights_only,
                          const py::object& into) {
  const std::shared_ptr<Message> message = await_message(backend, peer, tag, timeout);
  const int source = message->source;
  return py::make_tuple(source, receive(backend, message, {weights_only, into}));
}

py::object probe_message(CustomBackend& backend, int peer, std::int64_t tag) {
  std::uint64_t bytes = 0;
  int source = -1;
  {
    const WithoutPythonLock without_lock;
    const Call call = message_call(Op::kRecv, peer, tag);
    source = backend.group()->probe(call, bytes);
    if (source < 0 && !backend.group()->health().ok()) check(backend.group()->refuse(Task(call, Nanos(0))));
  }
  if (source < 0) return py::none();
  return py::make_tuple(source, bytes);
}

// For tests: the bytes of a message, and what is made of such bytes, which a peer may have garbled.
py::bytes parcel_of(const py::object& value) {
  Parcel parcel;
  encode(value, kHeadLimit, parcel);
  std::string bytes;
  for (const View& view : parcel.views) bytes.append(reinterpret_cast<const char*>(view.data), view.count);
  return bytes;
}

py::object value_of_parcel(const std::string& bytes, bool in_parts, bool weights_only, const py::object& into) {
  const auto message = std::make_shared<Message>();
  message->header.bytes = static_cast<std::uint32_t>(bytes.size());
  message->header.total = bytes.size();
  message->data = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
  std::memcpy(message->data.get(), bytes.data(), bytes.size());
  const Preface preface = preface_of(*message);
  if (!in_parts) return decode_whole(preface, message->data.get(), bytes.size(), message, {weights_only, into});
  const std::uint64_t head = aligned(sizeof(preface) + preface.header_bytes);
  TORCH_CHECK_VALUE(head <= bytes.size(), "customccl: a message is garbled: its head is incomplete");
  ParcelDecoder decoder({message->data.get() + sizeof(Preface), preface.header_bytes}, nullptr, bytes.size() - head,
                        message, {weights_only, into});
  py::object value = decoder.decode();
  const std::byte* from = message->data.get() + head;
  for (const View& room : decoder.room()) {
    std::memcpy(room.data, from, room.count);
    from += room.count;
  }
  decoder.finish();
  return value;
}

}  // namespace

void bind_message_exchange(py::module_& module) {
  bind_shared_bytes(module);
  main_thread = py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  const py::cpp_function in_child([] { main_thread = PyThread_get_thread_ident(); });  // of whatever thread forked
  py::module_::import("os").attr("register_at_fork")(py::arg("after_in_child") = in_child);
  module.def("send_message", &send_message, py::arg("backend"), py::arg("value"), py::arg("peers"), py::arg("tag"),
             py::arg("timeout"));
  module.def("receive_message", &receive_message, py::arg("backend"), py::arg("peer"), py::arg("tag"),
             py::arg("timeout"), py::arg("weights_only"), py::arg("into"));
  module.def("parcel_of", &parcel_of, py::arg("value"));
  module.def("value_of_parcel", &value_of_parcel, py::arg("parcel"), py::arg("in_parts"), py::arg("weights_only"),
             py::arg("into"));
  module.def("probe_message", &probe_message, py::arg("backend"), py::arg("peer"), py::arg("tag"));
}

}  // namespace customccl::torch_shim
