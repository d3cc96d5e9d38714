"""What a process leaves behind: shared memory names, threads, descriptors, processes."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

_SHM = Path("/dev/shm")
_SETTLE_S = 1.0


@dataclass(frozen=True)
class Snapshot:
    """State of this process and of the machine's shared memory names."""

    names: frozenset[str]
    threads: int
    descriptors: int
    children: int  # also those that have ended, as long as nobody has asked how


def snapshot() -> Snapshot:
    """Take one now."""
    names = frozenset(os.listdir(_SHM)) if _SHM.is_dir() else frozenset()
    tasks = Path("/proc/self/task")
    threads = len(os.listdir(tasks)) if tasks.is_dir() else threading.active_count()
    folder = Path("/proc/self/fd")
    return Snapshot(names, threads, len(os.listdir(folder)) if folder.is_dir() else 0, _children())


def resident_bytes(device: torch.device | str) -> int:
    """What this process holds: memory of the device, or its own pages in RAM beside what it shares with others.

    What Python has not collected yet and what malloc keeps for later is nobody's.
    """
    gc.collect()
    if torch.device(device).type == "cuda":
        return torch.cuda.memory_allocated(device)
    with suppress(AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _children() -> int:
    parents = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit():
                state = (process / "stat").read_text().rpartition(")")[2].split()
                parents.append(int(state[1]))
    return parents.count(os.getpid())


def forgotten_names(before: Snapshot, grace_s: float = _SETTLE_S) -> list[str]:
    """Names made since ``before`` that still exist after a grace and that no living process uses."""
    limit = time.monotonic() + grace_s
    while True:
        new = [name for name in snapshot().names - before.names if not _in_use(name)]
        if not new or time.monotonic() > limit:
            return sorted(new)
        time.sleep(0.05)


def _in_use(name: str) -> bool:
    """Does any other process map or hold this name open (another program's segment is not this case's leak)."""
    target = str(_SHM / name)
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or process.name == str(os.getpid()):
            continue
        with suppress(OSError):
            if target in (process / "maps").read_text():
                return True
            if any(os.readlink(link) == target for link in (process / "fd").iterdir()):
                return True
    return False
