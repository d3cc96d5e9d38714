#include "platform/mechanisms.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "platform/errno_text.h"
#include "platform/futex.h"
#include "platform/life_word.h"
#include "platform/memory_file.h"
#include "platform/process.h"
#include "platform/process_memory.h"
#include "platform/settings.h"
#include "platform/unix_socket.h"

namespace customccl {
namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::chrono::seconds kPatience{2};

// A page of shared memory as the arena uses it.
class SharedPage {
 public:
  SharedPage() {
    status_ = create_memory_file("customccl-probe", kBytes, file_);
    if (status_.ok()) status_ = map_memory_file(file_.fd, kBytes, base_);
    if (status_.ok()) status_ = reserve_pages(file_, 0, kBytes);
  }
  ~SharedPage() { unmap_memory(base_, kBytes); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  const Status& status() const { return status_; }
  const MemoryFile& file() const { return file_; }
  template <class T>
  T& as() {
    return *new (base_) T;
  }

 private:
  Status status_;
  MemoryFile file_;
  std::byte* base_ = nullptr;
};

Mechanism outcome(std::string name, const Status& status, const std::string& detail) {
  return {std::move(name), status.ok(), status.ok() ? detail : status.message()};
}

Mechanism probe_shared_memory() {
  const SharedPage page;
  return outcome("shared memory", page.status(), page.file().mechanism);
}

Mechanism probe_seals() {
  const SharedPage page;
  if (!page.status().ok()) return outcome("sealed memory", page.status(), "");
  const int seals = ::fcntl(page.file().fd.get(), F_GET_SEALS);
  if (seals < 0) return {"sealed memory", false, "F_GET_SEALS: " + errno_text(errno)};
  const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const bool works = (seals & wanted) == wanted;
  return {"sealed memory", works,
          works ? "a peer cannot resize it" : "not sealed, a peer could shrink it (" + page.file().mechanism + ")"};
}

// To ourselves: the backlog holds the connection until we accept it, and the socket the descriptor until we read it.
Status pass_descriptor_to_self() {
  const std::string name = "customccl-probe-" + to_hex(random_id());
  const Deadline deadline(kPatience);
  Fd listener, client, server, received;
  SharedPage page;
  PeerCredentials peer;
  Status status = page.status();
  if (status.ok()) status = listen_abstract(name, listener);
  if (status.ok()) status = connect_abstract(name, deadline, client);
  if (status.ok()) status = accept_connection(listener, deadline, server);
  if (status.ok()) status = peer_credentials(server, peer);
  if (status.ok()) status = send_descriptor(client, page.file().fd, deadline);
  if (status.ok()) status = recv_descriptor(server, deadline, received);
  if (!status.ok()) return status;

  std::byte* again = nullptr;
  status = map_memory_file(received, kBytes, again);
  if (!status.ok()) return status;
  page.as<std::atomic<std::uint32_t>>().store(42);
  const bool same = reinterpret_cast<std::atomic<std::uint32_t>*>(again)->load() == 42;
  unmap_memory(again, kBytes);
  return same ? Status{} : Status{Code::kSystem, "The descriptor that came back maps other memory than the one sent."};
}

// A sleeper and a waker see the word at different addresses, as two processes would.
Mechanism probe_futex() {
  SharedPage page;
  std::byte* alias = nullptr;
  Status status = page.status();
  if (status.ok()) status = map_memory_file(page.file().fd, kBytes, alias);
  if (!status.ok()) return outcome("shared futex", status, "");
  auto& word = page.as<std::atomic<std::uint32_t>>();
  auto& seen = *reinterpret_cast<std::atomic<std::uint32_t>*>(alias);
  std::atomic<bool> timely{true};
  std::thread sleeper([&] {
    const Deadline deadline(kPatience);
    while (seen.load() == 0 && !deadline.passed()) futex_wait(seen, 0, deadline.left());
    timely = !deadline.passed();
  });
  word.store(1);
  futex_wake_all(word);
  sleeper.join();
  unmap_memory(alias, kBytes);
  return {"shared futex", timely, timely ? "sleepers are woken" : "a sleeper was not woken"};
}

Mechanism probe_membarrier() {
  if (disabled("membarrier")) return {"membarrier", false, "switched off by CUSTOMCCL_DISABLE"};
  errno = 0;
  const bool works = register_process_barrier() && process_barrier();
  return {"membarrier", works, works ? "global expedited" : "membarrier: " + errno_text(errno)};
}

// Our own: whether peers may be read, too, only they can tell.
Mechanism probe_process_memory() {
  const std::byte written{42};
  std::byte got{};
  const int error = read_process_memory(::getpid(), &got, reinterpret_cast<std::uintptr_t>(&written), 1);
  const bool works = error == 0 && got == written;
  return {"process memory", works, works ? "process_vm_readv" : "process_vm_readv: " + errno_text(error)};
}

Mechanism probe_life_word() {
  SharedPage page;
  if (!page.status().ok()) return outcome("life word", page.status(), "");
  auto& word = page.as<LifeWord>();
  bool adopted = false;
  int error = 0;
  std::thread([&] {
    adopted = word.adopt();
    error = errno;
  }).join();
  if (!adopted) return {"life word", false, "set_robust_list: " + errno_text(error)};
  const bool works = word.dead();
  return {"life word", works, works ? "the kernel marks the end of a thread" : "a thread ended unmarked"};
}

}  // namespace

std::vector<Mechanism> probe_mechanisms() {
  return {probe_shared_memory(),
          probe_seals(),
          outcome("descriptor passing", pass_descriptor_to_self(), "over abstract Unix sockets"),
          probe_futex(),
          probe_membarrier(),
          probe_process_memory(),
          probe_life_word()};
}

}  // namespace customccl
