#pragma once

#include <torch/csrc/profiler/combined_traceback.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "c10d/compat.h"
#include "platform/clock.h"

namespace customccl::torch_shim {

// What this process did lately, one entry per Work: what torch's flight recorder keeps of its own backends.
//
// torch's recorder is a template whose one instance lies hidden inside libtorch_cpu, so entries of others cannot be put into it.
// This is a ring of our own; torch_customccl/_flight_recorder.py adds it to what torch dumps. On when TORCH_FR_BUFFER_SIZE or
// TORCH_NCCL_TRACE_BUFFER_SIZE is set: its number of entries. From torch 2.15 on torch records every backend from outside.
//
// Thread-safe. A traceback needs Python's lock for a moment, which the caller must not be waiting for with a lock of ours.
class FlightLog {
 public:
  struct Shape {
    std::vector<std::int64_t> sizes;
    c10::ScalarType dtype;
  };
  struct Entry {
    std::uint64_t id = 0;
    std::uint64_t group = 0;
    std::string group_name;
    std::string group_description;
    std::string name;
    std::uint64_t sequence = 0;
    bool p2p = false;
    std::vector<Shape> inputs;
    std::vector<Shape> outputs;
    std::chrono::milliseconds timeout{0};
    c10::time_t created = 0;
    std::optional<c10::time_t> completed;
    std::optional<Nanos> took;
    bool retired = false;  // over; one that is not completed has failed
    std::string thread;
    std::shared_ptr<torch::CapturedTraceback> traceback;
  };
  struct Group {
    std::string name;  // also of groups before it, where they were destroyed
    std::string description;
    std::vector<int> global_ranks;
    std::uint64_t last_enqueued = 0;
    std::uint64_t last_completed = 0;
  };

  static FlightLog& get();
  bool on() const { return limit_ > 0; }

  // A number for a new group.
  std::uint64_t add_group();
  // Takes an entry in and returns its id. `global_ranks` are those of its group.
  std::uint64_t begin(Entry entry, const std::vector<int>& global_ranks);
  void end(std::uint64_t id, bool ok, Nanos took);

  // Oldest first.
  std::vector<Entry> entries() const;
  // By number.
  std::map<std::uint64_t, Group> groups() const;

 private:
  explicit FlightLog(std::size_t limit) : limit_(limit) {}

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // entry i lies at i % limit_
  std::uint64_t next_ = 0;
  std::uint64_t next_group_ = 0;
  std::map<std::uint64_t, Group> groups_;
};

}  // namespace customccl::torch_shim
