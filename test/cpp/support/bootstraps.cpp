#include "support/bootstraps.h"

#include <poll.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace customccl::test {

void Board::put(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

Status Board::get(const std::string& key, const Deadline& deadline, std::string& value) {
  std::unique_lock lock(mutex_);
  const auto there = [&] { return values_.count(key) != 0; };
  // The system clock, because thread sanitizers of older compilers do not know waits on the steady one.
  if (!changed_.wait_until(lock, std::chrono::system_clock::now() + deadline.left(), there)) {
    return {Code::kTimeout, "nobody put " + key};
  }
  value = values_[key];
  return {};
}

Status BoardBootstrap::put(const std::string& key, const std::string& value) {
  board_.put(prefix_ + "/" + key, value);
  return {};
}

Status BoardBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  return board_.get(prefix_ + "/" + key, deadline, value);
}

std::string DirectoryBootstrap::path_of(const std::string& key) const {
  std::string name = prefix_ + "," + key;
  for (char& letter : name) letter = letter == '/' ? '-' : letter;
  return folder_ + "/" + name;
}

Status DirectoryBootstrap::put(const std::string& key, const std::string& value) {
  const std::string path = path_of(key);
  std::ofstream(path + ".new") << value;
  std::filesystem::rename(path + ".new", path);
  return {};
}

Status DirectoryBootstrap::get(const std::string& key, const Deadline& deadline, std::string& value) {
  for (;;) {
    if (std::ifstream file(path_of(key)); file) {
      std::ostringstream text;
      text << file.rdbuf();
      value = text.str();
      return {};
    }
    if (deadline.passed()) return {Code::kTimeout, "nobody put " + key};
    const timespec pause{0, 200'000};
    ::ppoll(nullptr, 0, &pause, nullptr);
  }
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = std::filesystem::temp_directory_path() / "customccl-test-XXXXXX";
  path_ = ::mkdtemp(name.data());
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace customccl::test
