#include "host/keeper.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <future>
#include <memory>
#include <utility>
#include <vector>

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

constexpr Nanos kPatience = std::chrono::seconds(1);  // who has begun to speak and does not go on is dropped after this
// So many are heard when they speak: the peers of the largest group. Of more, the first that came is dropped.
constexpr std::size_t kMostSilent = 256;

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

// Who has come and said nothing yet. A peer may be stopped before it does, for as long as its group waits for it: nobody waits with it.
struct Visitor {
  Line line;
  PeerCredentials who;
};

// What the keeper waits for: those who come, the bell, and behind them what each of `visitors` says.
struct Watch {
  std::vector<pollfd> waiting;
  std::vector<Visitor> visitors;
  bool refused = false;  // the last one that came was not let in

  pollfd& door() { return waiting[0]; }
  pollfd& bell() { return waiting[1]; }
  pollfd& of(std::size_t visitor) { return waiting[2 + visitor]; }
  Visitor take(std::size_t index) {
    Visitor taken = std::move(visitors[index]);
    waiting.erase(waiting.begin() + 2 + static_cast<std::ptrdiff_t>(index));
    visitors.erase(visitors.begin() + static_cast<std::ptrdiff_t>(index));
    return taken;
  }
};

// One peer: hear the secret, give it the descriptor. Anything odd: log and drop, the job goes on.
void serve_peer(const HostArena& arena, const Fd& peer, const PeerCredentials& who) {
  const Deadline deadline(kPatience);
  Id128 secret{};
  Status status = recv_exact(peer, &secret, sizeof(secret), deadline);
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

void let_in(Fd peer, Watch& watch) {
  PeerCredentials who;
  if (Status status = peer_credentials(peer, who); !status.ok()) return log(LogLevel::kInfo, status.message());
  if (who.uid != ::geteuid()) {
    log(LogLevel::kWarning,
        "refused a connection from uid " + std::to_string(who.uid) + " to the shared-memory socket");
    return;
  }
  if (watch.visitors.size() == kMostSilent) static_cast<void>(watch.take(0));
  watch.waiting.push_back({peer.get(), POLLIN, 0});
  watch.visitors.push_back({Line(std::move(peer)), who});
}

void accept_peer(const Fd& listener, Watch& watch) {
  watch.waiting.reserve(2 + kMostSilent);
  watch.visitors.reserve(kMostSilent);
  Fd peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int error = peer ? 0 : errno;
  const bool crowded = error == EMFILE || error == ENFILE || error == ENOMEM;
  const bool told = std::exchange(watch.refused, crowded);
  if (peer) return let_in(std::move(peer), watch);
  if (!crowded) return;
  // The connection stays in the queue and poll() would return at once: wait until others may have closed something.
  if (!told) log(LogLevel::kError, "cannot accept a peer: " + errno_text(error));
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

// Whoever has spoken, or left, is served at once or not at all.
void hear_visitors(const HostArena& arena, Watch& watch) {
  for (std::size_t i = watch.visitors.size(); i-- != 0;) {
    if (watch.of(i).revents == 0) continue;
    const bool spoke = came(watch.of(i), watch.visitors[i].line);
    const Visitor visitor = watch.take(i);
    if (spoke) serve_peer(arena, visitor.line.fd, visitor.who);
  }
}

void look_round(const HostArena& arena, const Lines& lines, Watch& watch, int& patience) {
  if (pollfd& bell = watch.bell(); came(bell, lines.bell)) {
    std::array<std::byte, 64> rung{};
    if (::recv(bell.fd, rung.data(), rung.size(), MSG_DONTWAIT) <= 0 && errno != EAGAIN) bell.fd = -1;
  }
  hear_visitors(arena, watch);
  if (came(watch.door(), lines.visitors)) accept_peer(lines.visitors.fd, watch);
  patience = look_after_memory();
  if (watch.bell().fd < 0 && patience < 0) patience = kBlindTick;
}

// For ever: peers would take the end of this thread for the end of its process. What is refused now may be had later.
void keep(const HostArena& arena, const Lines& lines) {
  Watch watch;
  watch.waiting = {{lines.visitors.fd.get(), POLLIN, 0}, {lines.bell.fd.get(), POLLIN, 0}};
  int patience = -1;
  for (;;) {
    const bool sound = ::poll(watch.waiting.data(), watch.waiting.size(), patience) >= 0;
    if (!sound && errno == EINVAL && !watch.visitors.empty())
      static_cast<void>(watch.take(0));  // beyond a limit that is lower now
    if (!sound) std::ranges::for_each(watch.waiting, [](pollfd& each) { each.revents = 0; });
    const bool done = attempt([&] { look_round(arena, lines, watch, patience); });
    if (!done) patience = kLimboTick;  // the bell that told of more has been heard
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
  int ends[2] = {-1, -1};
  const bool made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
  Fd bell(ends[0]);
  Fd rope(ends[1]);
  if (!made || !bell || !rope) return system_error("Cannot make the bell of the keeper of shared memory", errno);
  auto adopted = std::make_shared<std::promise<bool>>();
  auto lines = std::make_shared<Lines>(Lines{Line(std::move(listener)), Line(std::move(bell)), Line(std::move(rope))});
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
