#include "c10d/facts.h"

#include <string>

#include "base/build_info.h"
#include "host/host_arena.h"
#include "platform/cpu.h"
#include "platform/mechanisms.h"
#include "platform/settings.h"

namespace customccl::torch_shim {

namespace py = pybind11;

namespace {

py::list mechanisms() {
  py::list rows;
  for (const Mechanism& mechanism : probe_mechanisms()) {
    rows.append(py::dict(py::arg("name") = mechanism.name, py::arg("works") = mechanism.works,
                         py::arg("detail") = mechanism.detail));
  }
  return rows;
}

py::list all_settings() {
  py::list rows;
  for (const SettingInfo& setting : describe_settings()) {
    rows.append(py::dict(py::arg("variable") = std::string(setting.variable),
                         py::arg("meaning") = std::string(setting.meaning), py::arg("default") = setting.default_value,
                         py::arg("value") = setting.value));
  }
  return rows;
}

py::dict arena() {
  py::dict facts;
  HostArena* arena = HostArena::existing();
  facts["made"] = arena != nullptr;
  facts["bytes_reserved"] = arena != nullptr ? arena->bytes() : settings().arena_bytes;
  facts["bytes_in_use"] = arena != nullptr ? arena->bytes_in_use() : 0;
  if (arena != nullptr) facts["mechanism"] = arena->mechanism();
  return facts;
}

}  // namespace

py::dict facts() {
  py::dict facts;
  facts["version"] = std::string(kVersion);
  facts["compiler"] = std::string(kCompiler);
  facts["build_type"] = std::string(kBuildType);
  facts["instruction_set"] = to_string(instruction_set());
  facts["usable_cpus"] = affinity().count();
  facts["cgroup_cpu_limit"] = cgroup_cpu_limit();
  py::list domains;
  for (const CpuSet& domain : cache_domains()) domains.append(to_string(domain));
  facts["cache_domains"] = domains;
  facts["mechanisms"] = mechanisms();
  facts["settings"] = all_settings();
  facts["arena"] = arena();
  return facts;
}

}  // namespace customccl::torch_shim
