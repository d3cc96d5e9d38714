#include "host/keeper.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
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
#include "platform/errno_text.h"
#include "platform/inheritance.h"
#include "platform/log.h"
#include "platform/unix_socket.h"

namespace customccl {

namespace {

constexpr Nanos kPatience = std::chrono::seconds(1);  // a stranger that connects and says nothing is dropped after this

constexpr int kLimboTick = 20;    // ms between looks while memory waits in limbo
constexpr int kBlindTick = 1000;  // the same while nobody can ring

// A descriptor that the program may close although it is not its own: then its next file has the number.
struct Line {
  Fd fd;
  FileIdentity identity;

  explicit Line(Fd opened) : fd(std::move(opened)), identity(fd) { withhold_from_children(fd.get(), identity); }
  Line(Line&&) = default;
  Line& operator=(Line&&) = default;
  ~Line() {
    if (!fd) return;
    end_withholding(fd.get());
    if (!intact()) fd.release();
  }
  bool intact() const { return identity.is_of(fd.get()); }
};

// What the keeper listens to. The bell is a pair of sockets: every eventfd is the same file, so nobody could tell ours from the program's.
struct Lines {
  Line visitors;
  Line bell;
  Line bell_rope;
};

std::atomic<const Line*> bell_rope{nullptr};  // of the running keeper, which never ends

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
  if (status.ok() && !arena.file().intact()) {
    log(LogLevel::kWarning, "pid " + std::to_string(who.pid) +
                                " gets no shared memory: the program closed its descriptor, which is not its own");
    return;
  }
  if (status.ok()) status = send_descriptor(peer, arena.file().fd, deadline);
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

// What came, if the keeper is still who is to be asked there: else poll() passes it over from now on.
bool came(pollfd& each, const Line& line) {
  if (each.revents == 0) return false;
  if (!line.intact() || (each.revents & (POLLNVAL | POLLERR | POLLHUP)) != 0) each.fd = -1;
  return each.fd >= 0 && (each.revents & POLLIN) != 0;
}

void look_round(const HostArena& arena, const Lines& lines, pollfd& visitors, pollfd& bell, int& patience) {
  if (came(bell, lines.bell)) {
    std::array<std::byte, 64> rung{};
    if (::recv(bell.fd, rung.data(), rung.size(), MSG_DONTWAIT) <= 0 && errno != EAGAIN) bell.fd = -1;
  }
  if (came(visitors, lines.visitors)) accept_peer(arena, lines.visitors.fd);
  patience = look_after_memory();
  if (bell.fd < 0 && patience < 0) patience = kBlindTick;
}

// For ever: peers would take the end of this thread for the end of its process. What is refused now may be had later.
void keep(const HostArena& arena, const Lines& lines) {
  pollfd waiting[2] = {{lines.visitors.fd.get(), POLLIN, 0}, {lines.bell.fd.get(), POLLIN, 0}};
  int patience = -1;
  for (;;) {
    const bool sound = ::poll(waiting, 2, patience) >= 0;
    if (!sound) waiting[0].revents = waiting[1].revents = 0;
    const bool done = attempt([&] { look_round(arena, lines, waiting[0], waiting[1], patience); });
    if (!sound || !done) ::poll(nullptr, 0, kLimboTick);
  }
}

}  // namespace

void wake_keeper() {
  const Line* const rope = bell_rope;
  if (rope == nullptr || !rope->intact()) return;
  // No room means that the keeper is awake already; nothing else can fail here.
  [[maybe_unused]] const auto sent = ::send(rope->fd.get(), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::string keeper_address(const Id128& arena_id) { return "customccl-" + to_hex(arena_id); }

Status start_keeper(HostArena& arena) {
  Fd listener;
  if (Status status = listen_abstract(keeper_address(arena.header().id), listener); !status.ok()) return status;
  int bell[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bell) != 0)
    return system_error("Cannot make the bell of the keeper of shared memory", errno);
  auto adopted = std::make_shared<std::promise<bool>>();
  auto lines = std::make_shared<Lines>(Lines{Line(std::move(listener)), Line(Fd(bell[0])), Line(Fd(bell[1]))});
  Status started = start_background_thread("customccl-keep", [&arena, lines, adopted] {
    const bool alive = arena.header().life.adopt();
    adopted->set_value(alive);
    if (alive) keep(arena, *lines);  // else the arena is given up
  });
  if (!started.ok()) return started;
  if (!adopted->get_future().get()) {
    return {Code::kSystem,
            "customccl: the kernel refused set_robust_list, by which peers learn that a process died. A seccomp "
            "profile is the "
            "usual cause; allow set_robust_list."};
  }
  bell_rope = &lines->bell_rope;
  arena.on_shortage([] { return TensorMemory::of_process().give_back_all(); });
  return {};
}

}  // namespace customccl
