#include "host/peer_arena.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <istream>
#include <map>
#include <mutex>
#include <ostream>
#include <utility>

#include "host/host_arena.h"
#include "host/keeper.h"
#include "platform/memory_file.h"
#include "platform/once_per_process.h"
#include "platform/process_memory.h"
#include "platform/unix_socket.h"

namespace customccl {

namespace {

// Mapped arenas; an entry lives as long as a group uses it.
class Registry {
 public:
  std::shared_ptr<PeerArena> find(const Id128& id) {
    const std::lock_guard lock(mutex_);
    const auto known = arenas_.find(id);
    return known == arenas_.end() ? nullptr : known->second.lock();
  }
  // What was mapped first stays when two threads have mapped the same.
  std::shared_ptr<PeerArena> keep(const Id128& id, std::shared_ptr<PeerArena> mapped) {
    const std::lock_guard lock(mutex_);
    std::erase_if(arenas_, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<PeerArena>& entry = arenas_[id];
    if (auto first = entry.lock(); first != nullptr) return first;
    entry = mapped;
    return mapped;
  }

 private:
  std::mutex mutex_;
  std::map<Id128, std::weak_ptr<PeerArena>> arenas_;
};

Status unreachable(const ArenaAddress& address, const std::string& why) {
  return {Code::kUnreachable, "process " + std::to_string(address.pid) + " on host " + address.host +
                                  " does not share memory with process " + std::to_string(::getpid()) + " on host " +
                                  host_name() + ": " + why};
}

// Whether the process would be found at its socket if it lived: it listened before it told its address, and all of one network
// namespace reach that. Machines made from one snapshot have the same boot id, so the name of the host must be the same, too.
bool within_reach(const ArenaAddress& address) {
  return address.network != 0 && address.network == network_namespace() && address.boot_id == boot_id() &&
         address.boot_id != kUnknownBoot && address.host == host_name();
}

Status fetch_descriptor(const ArenaAddress& address, const Deadline& deadline, Fd& out) {
  Fd socket;
  if (Status status = connect_abstract(keeper_address(address.id), deadline, socket); !status.ok()) {
    const bool nobody = status.code == Code::kPeerLeft;  // else a sandbox, say, lets this process not go there
    if (!nobody && status.code != Code::kUnreachable) return status;  // this process has no socket, or no time, left
    if (nobody && within_reach(address))
      return {Code::kPeerDied, "process " + std::to_string(address.pid) + " has ended: its local socket is gone"};
    return unreachable(address, "its local socket cannot be reached (" + status.message() + ")");
  }
  PeerCredentials who;
  if (Status status = peer_credentials(socket, who); !status.ok()) return status;
  if (who.uid != ::geteuid()) return unreachable(address, "it runs as uid " + std::to_string(who.uid));
  if (Status status = send_exact(socket, &address.secret, sizeof(address.secret), deadline); !status.ok())
    return status;
  return recv_descriptor(socket, deadline, out);
}

Status map_peer(const ArenaAddress& address, const Deadline& deadline, std::shared_ptr<PeerArena>& out) {
  Fd fd;
  if (Status status = fetch_descriptor(address, deadline, fd); !status.ok()) return status;
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != address.bytes) {
    return unreachable(address, "the memory it sent has another size than it announced");
  }
  std::byte* base = nullptr;
  if (Status status = map_memory_file(fd, address.bytes, base); !status.ok()) return status;
  out = std::make_shared<PeerArena>(base, address.bytes, true);
  const auto* header = reinterpret_cast<const ArenaHeader*>(base);
  if (header->magic != ArenaHeader::kMagic || header->version != ArenaHeader::kVersion || header->id != address.id) {
    return unreachable(address, "the memory it sent is not the arena it announced (another version of customccl?)");
  }
  return {};
}

}  // namespace

Status ArenaAddress::own(ArenaAddress& out) {
  HostArena* arena = nullptr;
  if (Status status = HostArena::get(arena); !status.ok()) return status;
  out = {arena->header().id, arena->secret(),      arena->bytes(), ::getpid(),
         arena->network(),   customccl::boot_id(), host_name()};
  return {};
}

std::ostream& operator<<(std::ostream& text, const ArenaAddress& address) {
  return text << address.id[0] << ' ' << address.id[1] << ' ' << address.secret[0] << ' ' << address.secret[1] << ' '
              << address.bytes << ' ' << address.pid << ' ' << address.network << ' ' << address.boot_id << ' '
              << address.host;
}

std::istream& operator>>(std::istream& text, ArenaAddress& out) {
  return text >> out.id[0] >> out.id[1] >> out.secret[0] >> out.secret[1] >> out.bytes >> out.pid >> out.network >>
         out.boot_id >> out.host;
}

PeerArena::~PeerArena() {
  // In a forked child the mapping does not exist, and something else may lie at its address.
  if (mapped_ && generation_ == fork_generation()) unmap_memory(base_, bytes_);
}

bool PeerArena::memory_readable() const {
  Id128 id{};
  const std::uint64_t address = header().address + offsetof(ArenaHeader, id);
  return read_memory(reinterpret_cast<std::byte*>(&id), address, sizeof(id)) == 0 && id == header().id;
}

int PeerArena::read_memory(std::byte* to, std::uint64_t address, std::size_t bytes) const {
  const int error = read_process_memory(header().life.owner(), to, address, bytes);
  return error == 0 && dead() ? ESRCH : error;
}

Status attach(const ArenaAddress& address, const Deadline& deadline, std::shared_ptr<PeerArena>& out) {
  HostArena* own = nullptr;
  if (Status status = HostArena::get(own); !status.ok()) return status;
  auto& registry = once_per_process<Registry>();
  if (out = registry.find(address.id); out != nullptr) return {};
  // No lock while the peer is asked: it may be stopped, and others want to attach elsewhere.
  std::shared_ptr<PeerArena> mapped;
  if (address.id == own->header().id) {
    mapped = std::make_shared<PeerArena>(own->base(), own->bytes(), false);
  } else if (address.boot_id != boot_id()) {
    return unreachable(address, "it runs under another kernel");
  } else if (Status status = map_peer(address, deadline, mapped); !status.ok()) {
    return status;
  }
  out = registry.keep(address.id, std::move(mapped));
  return {};
}

}  // namespace customccl
