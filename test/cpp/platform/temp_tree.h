#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "platform/process.h"

namespace customccl::test {

// A made-up root file system, removed at the end.
class TempTree {
 public:
  TempTree() : root_(std::filesystem::temp_directory_path() / ("customccl-test-" + to_hex(random_id()))) {
    std::filesystem::create_directories(root_);
  }
  ~TempTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;

  TempTree& add(const std::string& path, std::string_view text) {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
    return *this;
  }
  std::string root() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

}  // namespace customccl::test
