"""What is there before a test must be there after it, and nothing else."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from .settings import PATIENCE

SETTLE_S = 5.0 * PATIENCE  # how long the kernel and the store may take to notice the end of killed processes
HELPERS = ("multiprocessing.forkserver", "multiprocessing.resource_tracker")
# multiprocessing's (tqdm makes one in each rank that compiles); its helper removes those of killed ranks at its end.
SEMAPHORES = "sem.mp-"


@dataclass(frozen=True)
class Footprint:
    """Names in /dev/shm, abstract sockets of ours, child processes, and descriptors of this process."""

    shared_memory: frozenset[str]
    sockets: frozenset[str]
    children: frozenset[int]
    descriptors: int

    @classmethod
    def now(cls) -> Footprint:
        return cls(
            frozenset(path.name for path in Path("/dev/shm").iterdir() if not path.name.startswith(SEMAPHORES)),
            _sockets(),
            frozenset(child.pid for child in _children()),
            len(os.listdir("/proc/self/fd")),
        )

    def check_nothing_new(self, compare_descriptors: bool = True) -> None:
        deadline = time.monotonic() + SETTLE_S
        while leftovers := self._leftovers(compare_descriptors):
            assert time.monotonic() < deadline, "left behind: " + "; ".join(leftovers)
            time.sleep(0.05)

    def _leftovers(self, compare_descriptors: bool) -> list[str]:
        now = Footprint.now()
        found = []
        if names := {n for n in now.shared_memory - self.shared_memory if not _used_by_strangers(n)}:
            found.append(f"in /dev/shm {sorted(names)}")
        if sockets := (now.sockets - self.sockets - _sockets_of_strangers()) & _sockets():
            found.append(f"sockets {sorted(sockets)}")
        if children := now.children - self.children:
            found.append("processes " + ", ".join(_describe(pid) for pid in sorted(children)))
        if compare_descriptors and now.descriptors > self.descriptors:
            found.append(f"{now.descriptors - self.descriptors} file descriptors")
        return found


def _sockets() -> frozenset[str]:
    lines = Path("/proc/net/unix").read_text().splitlines()
    return frozenset(line.split()[-1] for line in lines if "customccl" in line)


def _children() -> list[psutil.Process]:
    """All descendants but the two helpers that multiprocessing itself keeps. What its server forks bears its
    command line, but is no helper."""
    result = []
    for child in psutil.Process().children(recursive=True):
        try:
            parent = child.parent()
            if not _is_helper(child) or (parent is not None and _is_helper(parent)):
                result.append(child)
        except psutil.NoSuchProcess:
            continue
    return result


def _is_helper(process: psutil.Process) -> bool:
    return any(helper in " ".join(process.cmdline()) for helper in HELPERS)


def _strangers() -> list[Path]:
    """/proc directories of processes that are no ranks of ours: other work on the same machine, and this process, whose
    shared memory (tests with ranks as threads make it) lasts as long as it does."""
    ranks = {child.pid for child in psutil.Process().children(recursive=True)}
    return [path for path in Path("/proc").iterdir() if path.name.isdigit() and int(path.name) not in ranks]


def _used_by_strangers(name: str) -> bool:
    """By inode: what a process maps may have been renamed since."""
    try:
        inode = (Path("/dev/shm") / name).stat().st_ino
    except FileNotFoundError:
        return True
    return any(inode in _mapped_inodes(process) for process in _strangers())


def _mapped_inodes(process: Path) -> set[int]:
    try:
        lines = (process / "maps").read_text().splitlines()
    except OSError:
        return set()
    return {int(line.split()[4]) for line in lines if "/dev/shm/" in line} | _open_inodes(process, "/dev/shm/")


def _open_inodes(process: Path, prefix: str) -> set[int]:
    inodes = set()
    with suppress(OSError):
        for fd in (process / "fd").iterdir():
            with suppress(OSError):  # it may be closed by now, as the one that lists this very folder is
                if os.readlink(fd).startswith(prefix):
                    inodes.add(fd.stat().st_ino)
    return inodes


def _sockets_of_strangers() -> frozenset[str]:
    inodes = {inode for process in _strangers() for inode in _open_inodes(process, "socket:")}
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return frozenset(fields[-1] for fields in lines if int(fields[6]) in inodes)


def _describe(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        return f"{pid} ({process.status()}: {' '.join(process.cmdline())[:80]})"
    except psutil.NoSuchProcess:
        return str(pid)
