#pragma once

#include <string>
#include <vector>

// What this system lets the library do, found out by doing it: for `python -m torch_customccl info` and bug reports.

namespace customccl {

struct Mechanism {
  std::string name;
  bool works = false;
  std::string detail;  // how it works, or the reason why not
};

// Tries every mechanism in turn; takes a few milliseconds, starts one short-lived thread, forks nothing.
std::vector<Mechanism> probe_mechanisms();

}  // namespace customccl
