#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <new>

#include "platform/memory_file.h"

namespace customccl::test {

inline constexpr std::size_t kPage = 4096;

// A mapping of one page of shared memory. Children do not inherit it: they make their own from the file.
class Mapping {
 public:
  explicit Mapping(const MemoryFile& file) {
    const Status status = map_memory_file(file.fd, kPage, base_);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  ~Mapping() { unmap_memory(base_, kPage); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* base() const { return base_; }
  template <class T>
  T& as() const {
    return *std::launder(reinterpret_cast<T*>(base_));
  }

 private:
  std::byte* base_ = nullptr;
};

inline MemoryFile new_page() {
  MemoryFile file;
  const Status status = create_memory_file("test", kPage, file);
  EXPECT_TRUE(status.ok()) << status.message();
  return file;
}

}  // namespace customccl::test
