"""What groups cost while nothing happens: CPU of an idle rank and of one that waits, memory of one more group."""

import time
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist

from benchmarks.peers import Peer
from benchmarks.shared_region import SharedRegion

SECONDS = 2.0
GROUPS = 50
WARM_GROUPS = 5


def idle_share() -> float:
    """Share of a core that this process takes while its main thread sleeps."""
    return _share(lambda: time.sleep(SECONDS))


def waiting_share(peer: Peer, region: SharedRegion, idle: float) -> float:
    """Share of a core that rank 0 takes in a barrier to which the others come two seconds later, beyond what the
    process takes when `idle`: other peers' threads look around even then. Not the first barrier, in which torch looks
    what accelerator there is."""
    dist.barrier(group=peer.group)
    region.sync()
    if region.rank:
        time.sleep(SECONDS)
    return max(0.0, _share(lambda: dist.barrier(group=peer.group)) - idle)


def bytes_per_group(peer: Peer) -> float:
    """Memory of this process that one more group over the same ranks takes, its Python objects included."""
    backend = dist.get_backend(peer.group)
    groups = []
    for number in range(WARM_GROUPS + GROUPS):
        if number == WARM_GROUPS:
            before = _resident_bytes()
        groups.append(dist.new_group(backend=backend))
        dist.barrier(group=groups[-1])
    grown = _resident_bytes() - before
    for group in groups:
        dist.destroy_process_group(group)
    return grown / GROUPS


def _share(action: Callable[[], object]) -> float:
    begin, before = time.monotonic(), time.process_time()
    action()
    return (time.process_time() - before) / (time.monotonic() - begin)


def _resident_bytes() -> int:
    """Private and shared memory; mapped files are others'."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))
