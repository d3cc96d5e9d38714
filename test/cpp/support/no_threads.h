#pragma once

namespace customccl::test {

// As long as one exists, the kernel starts no thread in this process: pthread_create() fails as where `ulimit -u` or pids.max is reached.
class NoThreads {
 public:
  NoThreads();
  ~NoThreads();
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

  // How many threads were asked for in vain.
  static int refused();
};

}  // namespace customccl::test
