#include "c10d/flight_dump.h"

#include "c10d/flight_log.h"

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

using Entry = FlightLog::Entry;

// Groups of torch's backends count from 0; ours must not be taken for one of them.
constexpr std::uint64_t kFirstGroup = 1 << 16;

py::list sizes_of(const std::vector<FlightLog::Shape>& shapes) {
  py::list sizes;
  for (const auto& shape : shapes) sizes.append(py::cast(shape.sizes));
  return sizes;
}

py::list dtypes_of(const std::vector<FlightLog::Shape>& shapes) {
  py::list dtypes;
  for (const auto& shape : shapes) dtypes.append(c10::toString(shape.dtype));
  return dtypes;
}

py::object time(std::optional<c10::time_t> when) { return when ? py::object(py::int_(*when)) : py::object(py::none()); }

py::dict describe(const Entry& entry) {
  py::dict row;
  row["record_id"] = entry.id;
  row["pg_id"] = kFirstGroup + entry.group;
  row["process_group"] = py::make_tuple(entry.group_name, entry.group_description);
  row["thread_name"] = entry.thread;
  row["thread_id"] = "";
  row["collective_seq_id"] = entry.p2p ? 0 : entry.sequence;
  row["p2p_seq_id"] = entry.p2p ? entry.sequence : 0;
  row["op_id"] = entry.id;
  row["profiling_name"] = entry.name;
  row["time_created_ns"] = entry.created;
  if (entry.took) row["duration_ms"] = static_cast<double>(entry.took->count()) / 1e6;
  row["input_sizes"] = sizes_of(entry.inputs);
  row["input_dtypes"] = dtypes_of(entry.inputs);
  row["output_sizes"] = sizes_of(entry.outputs);
  row["output_dtypes"] = dtypes_of(entry.outputs);
  row["state"] = entry.completed ? "completed" : "started";
  row["time_discovered_started_ns"] = entry.created;
  row["time_discovered_completed_ns"] = time(entry.completed);
  row["retired"] = entry.retired;
  row["timeout_ms"] = entry.timeout.count();
  row["is_p2p"] = entry.p2p;
  return row;
}

// The frames of all entries: torch resolves them in one go.
py::list frames_of(const torch::SymbolizedTracebacks& resolved, std::size_t entry) {
  py::list frames;
  for (const std::uint64_t index : resolved.tracebacks[entry]) {
    const auto& frame = resolved.all_frames[index];
    frames.append(py::dict(py::arg("name") = frame.funcname, py::arg("filename") = frame.filename,
                           py::arg("line") = frame.lineno));
  }
  return frames;
}

py::dict config_of(const FlightLog::Group& group) {
  std::string ranks;
  for (const int rank : group.global_ranks) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return py::dict(py::arg("name") = group.name, py::arg("desc") = group.description,
                  py::arg("ranks") = "[" + ranks + "]");
}

py::dict status_of(const FlightLog::Group& group) {
  return py::dict(py::arg("last_enqueued_collective") = std::to_string(group.last_enqueued),
                  py::arg("last_started_collective") = std::to_string(group.last_enqueued),
                  py::arg("last_completed_collective") = std::to_string(group.last_completed));
}

}  // namespace

py::dict flight_dump(bool stacks, bool only_active) {
  std::vector<Entry> entries = FlightLog::get().entries();
  if (only_active) std::erase_if(entries, [](const Entry& entry) { return entry.completed.has_value(); });
  torch::SymbolizedTracebacks resolved;
  if (stacks) {
    std::vector<torch::CapturedTraceback*> tracebacks;
    for (const Entry& entry : entries) tracebacks.push_back(entry.traceback.get());
    resolved = torch::symbolize(tracebacks);
  }
  py::list rows;
  py::dict config;
  py::dict status;
  const auto groups = FlightLog::get().groups();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    py::dict row = describe(entries[i]);
    if (stacks) row["frames"] = frames_of(resolved, i);
    rows.append(row);
    status[py::str(std::to_string(kFirstGroup + entries[i].group))] = status_of(groups.at(entries[i].group));
  }
  for (const auto& [number, group] : groups) config[py::str(group.name)] = config_of(group);
  return py::dict(py::arg("entries") = rows, py::arg("pg_config") = config, py::arg("pg_status") = status);
}

}  // namespace customccl::torch_shim
