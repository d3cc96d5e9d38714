#include "host/keeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <utility>

#include "base/attempt.h"
#include "host/host_arena.h"
#include "host/limbo.h"
#include "host/tensor_memory.h"
#include "platform/background_thread.h"
#include "platform/log.h"
#include "platform/unix_socket.h"

namespace customccl {

namespace {

constexpr Nanos kPatience = std::chrono::seconds(1);  // a stranger that connects and says nothing is dropped after this

constexpr int kLimboTick = 20;    // ms between looks while memory waits in limbo
constexpr int kBlindTick = 1000;  // the same while nobody can ring

std::atomic<int> keeper_bell{-1};  // eventfd of the running keeper

// One peer: check who it is, hear the secret, give it the descriptor. Anything odd: log and drop, the job goes on.
void serve_peer(const HostArena& arena, const Fd& peer) {
  const Deadline deadline(kPatience);
  PeerCredentials who;
  Id128 secret{};
  Status status = peer_credentials(peer, who);
  if (status.ok() && who.uid != ::geteuid()) {
    log(LogLevel::kWarning,
        "refused a connection from uid " + std::to_string(who.uid) + " to the shared-memory socket");
    return;
  }
  if (status.ok()) status = recv_exact(peer, &secret, sizeof(secret), deadline);
  if (status.ok() && secret != arena.secret()) {
    log(LogLevel::kWarning, "refused pid " + std::to_string(who.pid) + ": it does not know this job's secret");
    return;
  }
  if (status.ok()) status = send_descriptor(peer, arena.fd(), deadline);
  if (!status.ok()) log(LogLevel::kInfo, "a peer went away during the shared-memory handshake: " + status.message());
}

void accept_peer(const HostArena& arena, const Fd& listener) {
  const Fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (peer) return serve_peer(arena, peer);
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM) return;
  // The connection stays in the queue and poll() would return at once: wait until others may have closed something.
  log(LogLevel::kError, std::string("cannot accept a peer: ") + std::strerror(errno));
  ::poll(nullptr, 0, kLimboTick);
}

// Gives back what can be. How many milliseconds until there may be more; -1: not before the bell rings.
int look_after_memory() {
  const bool limbo_empty = reclaim_limbo();
  const Clock::time_point now = Clock::now();
  const auto next = TensorMemory::of_process().tidy(now);
  if (!limbo_empty) return kLimboTick;
  return next ? static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*next - now).count()) : -1;
}

// What came, if the keeper is still who is to be asked there: else, as when a program has closed what is not its own, poll() passes it
// over from now on.
bool came(pollfd& each) {
  if ((each.revents & (POLLNVAL | POLLERR | POLLHUP)) != 0) each.fd = -1;
  return each.fd >= 0 && (each.revents & POLLIN) != 0;
}

void look_round(const HostArena& arena, const Fd& listener, pollfd& visitors, pollfd& bell, int& patience) {
  if (came(bell)) {
    std::uint64_t rung = 0;
    if (::read(bell.fd, &rung, sizeof(rung)) != sizeof(rung) && errno != EAGAIN) bell.fd = -1;
  }
  if (came(visitors)) accept_peer(arena, listener);
  patience = look_after_memory();
  if (bell.fd < 0 && patience < 0) patience = kBlindTick;
}

// For ever: peers would take the end of this thread for the end of its process. What is refused now may be had later.
void keep(const HostArena& arena, const Fd& listener, const Fd& bell) {
  pollfd waiting[2] = {{listener.get(), POLLIN, 0}, {bell.get(), POLLIN, 0}};
  int patience = -1;
  for (;;) {
    const bool sound = ::poll(waiting, 2, patience) >= 0;
    if (!sound) waiting[0].revents = waiting[1].revents = 0;
    const bool done = attempt([&] { look_round(arena, listener, waiting[0], waiting[1], patience); });
    if (!sound || !done) ::poll(nullptr, 0, kLimboTick);
  }
}

}  // namespace

void wake_keeper() {
  const std::uint64_t one = 1;
  // A full counter means that the keeper is awake already; nothing else can fail here.
  [[maybe_unused]] const auto written = ::write(keeper_bell.load(), &one, sizeof(one));
}

std::string keeper_address(const Id128& arena_id) { return "customccl-" + to_hex(arena_id); }

Status start_keeper(HostArena& arena) {
  Fd listener;
  if (Status status = listen_abstract(keeper_address(arena.header().id), listener); !status.ok()) return status;
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  auto adopted = std::make_shared<std::promise<bool>>();
  auto sockets = std::make_shared<std::pair<Fd, Fd>>(std::move(listener), std::move(bell));
  Status started = start_background_thread("customccl-keep", [&arena, sockets, adopted] {
    const bool alive = arena.header().life.adopt();
    adopted->set_value(alive);
    if (alive) keep(arena, sockets->first, sockets->second);  // else the arena is given up
  });
  if (!started.ok()) return started;
  if (!adopted->get_future().get()) {
    return {Code::kSystem,
            "customccl: the kernel refused set_robust_list, by which peers learn that a process died. A seccomp "
            "profile is the "
            "usual cause; allow set_robust_list."};
  }
  keeper_bell.store(sockets->second.get());
  arena.on_shortage([] { return TensorMemory::of_process().give_back_all(); });
  return {};
}

}  // namespace customccl
