#pragma once

#include <string>
#include <vector>

namespace customccl::test {

// Runs suites of this program again in a process of its own, as settings are read once per process: "NAME=value" each. Suites that
// make sense only so are called DISABLED_. The exit code: 0 when they passed.
int run_again(const std::string& filter, const std::vector<std::string>& settings);

}  // namespace customccl::test
