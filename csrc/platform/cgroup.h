#pragma once

#include <string>

namespace customccl {

// cgroup_cpu_limit() with every path taken below `root`: tests give a made-up tree, everyone else the empty string.
double cgroup_cpu_limit_below(const std::string& root);

}  // namespace customccl
