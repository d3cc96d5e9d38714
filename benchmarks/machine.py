"""Facts about the machine, and two measurements that every number depends on: placement of the cores, memory speed."""

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks import native

NEAR_NS, FAR_NS = 200, 700  # round trips within one last-level cache, and within one socket, stay below these
MOST_PAIRS = 32
HANDOVER_SIZES = tuple(1 << power for power in (12, 14, 15, 16, 17, 18, 19, 20, 22, 24, 26))
SUM_SIZES = (64 << 20,)
CEILING_SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)


def facts() -> dict[str, Any]:
    """Everything that is read, not measured."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "cores": os.cpu_count(),
        "caches": _caches(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not told",
        "huge_pages_of_shared_memory": _read("/sys/kernel/mm/transparent_hugepage/shmem_enabled") or "not told",
        "virtual": "hypervisor" in (_read("/proc/cpuinfo") or ""),
        "versions": _versions(),
        "commit": _commit(),
        "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith("CUSTOMCCL_")},
    }


class Meter:
    """From its making on: how many cores other programs and the hypervisor took."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._before = self._seconds()

    @staticmethod
    def _seconds() -> tuple[float, float]:
        """CPU seconds of all programs but us and the ranks that have ended, and seconds stolen, since boot."""
        ticks = [int(word) for word in (_read("/proc/stat") or "cpu").splitlines()[0].split()[1:9]] or [0] * 8
        user, nice, system, _idle, _wait, interrupt, soft, stolen = (tick / os.sysconf("SC_CLK_TCK") for tick in ticks)
        spent = os.times()
        ours = spent.user + spent.system + spent.children_user + spent.children_system
        return user + nice + system + interrupt + soft - ours, stolen

    def read(self) -> dict[str, float]:
        elapsed = max(time.monotonic() - self._begin, 1e-9)
        others, stolen = (now - before for now, before in zip(self._seconds(), self._before, strict=True))
        return {"others": round(max(0.0, others) / elapsed, 3), "stolen": round(stolen / elapsed, 3)}


def processors() -> list[int]:
    """Usable processors in the order in which ranks are pinned to them: one of each core first."""
    turn: dict[str, int] = {}
    order = []
    for processor in sorted(os.sched_getaffinity(0)):
        core = _read(f"/sys/devices/system/cpu/cpu{processor}/topology/thread_siblings_list") or str(processor)
        turn[core] = turn.get(core, -1) + 1
        order.append((turn[core], processor))
    return [processor for _, processor in sorted(order)]


def free_threads(processors: Sequence[int]) -> None:
    """Every thread of this process may run on these: one that a bound thread has started is bound as well."""
    for thread in os.listdir("/proc/self/task"):
        with suppress(ProcessLookupError):  # it has ended since
            os.sched_setaffinity(int(thread), processors)


def placement(seconds: float = 0.1) -> list[dict[str, Any]]:
    """Round trip of a flag between pairs of usable processors: how far apart they are now."""
    usable = sorted(os.sched_getaffinity(0))
    pairs = [(a, b) for i, a in enumerate(usable) for b in usable[i + 1 :]]
    pairs = pairs[:: max(1, len(pairs) // MOST_PAIRS)] if len(pairs) > MOST_PAIRS else pairs
    if not pairs:
        return []
    words = [str(processor) for pair in pairs for processor in pair]
    found: list[dict[str, Any]] = json.loads(_output(native.ping_pong_program(), str(seconds), *words))
    return [{**pair, "distance": distance(pair["round_trip_ns"])} for pair in found]


def distance(round_trip_ns: float) -> str:
    if round_trip_ns < NEAR_NS:
        return "near (one last-level cache)"
    return "far (two last-level caches)" if round_trip_ns < FAR_NS else "very far (two sockets, or a busy machine)"


def ceiling(ranks: int, sizes: Sequence[int] = CEILING_SIZES, seconds: float = 0.1) -> dict[str, Any]:
    """GB/s per process when `ranks` processes copy at once."""
    words = map(str, sizes)
    copies = json.loads(_output(native.memory_program(), str(ranks), str(seconds), *words))
    return {"ranks": ranks, "copies": copies}


def handover(sizes: Sequence[int] = HANDOVER_SIZES, seconds: float = 0.1) -> list[dict[str, Any]]:
    """What two processes need to hand each other so many bytes; nothing where there are no two processors."""
    return _of_two(native.handover_program(), seconds, sizes)


def sums(sizes: Sequence[int] = SUM_SIZES, seconds: float = 2.0) -> list[dict[str, Any]]:
    """What two processes need to sum two tensors in shared memory; nothing where there are no two processors."""
    return _of_two(native.sum_in_place_program(), seconds, sizes)


def _of_two(program: Path, seconds: float, sizes: Sequence[int]) -> list[dict[str, Any]]:
    usable = [str(processor) for processor in processors()[:2]]
    if len(usable) < 2:
        return []
    found: list[dict[str, Any]] = json.loads(_output(program, str(seconds), *usable, *map(str, sizes)))
    return found


def _output(program: Path, *arguments: str) -> str:
    done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=300)
    return done.stdout


def _versions() -> dict[str, str]:
    import torch

    import torch_customccl

    first = subprocess.run([native.compiler(), "--version"], capture_output=True, text=True).stdout.splitlines()
    return {
        "torch_customccl": torch_customccl.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "compiler": first[0] if first else native.compiler(),
    }


def _commit() -> str:
    if not shutil.which("git"):
        return "unknown"
    command = ["git", "-C", str(native.ROOT), "describe", "--always", "--dirty", "--abbrev=10"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip() or "unknown"


def _processor() -> str:
    """Virtual machines call several generations by one name: "AMD EPYC, family 25, model 17"."""
    first = (_read("/proc/cpuinfo") or "").partition("\n\n")[0]
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    name = said.get("model name") or platform.processor() or platform.machine()
    return name + "".join(
        f", {what} {said[key]}" for key, what in (("cpu family", "family"), ("model", "model")) if key in said
    )


def _caches() -> list[str]:
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    found = []
    for index in sorted(folder.glob("index*")):
        level, kind, size, shared = (_read(str(index / name)) for name in ("level", "type", "size", "shared_cpu_list"))
        found.append(f"L{level} {kind} {size}, processors {shared}")
    return found


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def command_line() -> str:
    return " ".join(["python -m benchmarks", *sys.argv[1:]])
