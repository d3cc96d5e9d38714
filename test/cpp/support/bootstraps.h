#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "host/bootstrap.h"

namespace customccl::test {

// A place where threads of one process meet.
class Board {
 public:
  void put(const std::string& key, const std::string& value);
  Status get(const std::string& key, const Deadline& deadline, std::string& value);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// One group's corner of a board.
class BoardBootstrap final : public Bootstrap {
 public:
  BoardBootstrap(Board& board, std::string prefix) : board_(board), prefix_(std::move(prefix)) {}
  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;

 private:
  Board& board_;
  std::string prefix_;
};

// A directory in which processes meet: one file per key, renamed into place when it is complete.
class DirectoryBootstrap final : public Bootstrap {
 public:
  DirectoryBootstrap(std::string folder, std::string prefix) : folder_(std::move(folder)), prefix_(std::move(prefix)) {}
  Status put(const std::string& key, const std::string& value) override;
  Status get(const std::string& key, const Deadline& deadline, std::string& value) override;

 private:
  std::string path_of(const std::string& key) const;

  std::string folder_;
  std::string prefix_;
};

// A fresh directory, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace customccl::test
