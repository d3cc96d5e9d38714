"""Whole Python programs as ranks, where starting and ending an interpreter is the subject of the test."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

from .settings import BACKEND, LAUNCH_LIMIT_S

PROGRAMS = Path(__file__).parent.parent / "programs"
QUICK_START = Path(__file__).parent / "quick_start"


@dataclass(frozen=True)
class Ended:
    """How a program ended; a negative exit code is the number of a signal."""

    exit_code: int
    output: str  # standard output and standard error


def starting_quickly(environment: Mapping[str, str]) -> dict[str, str]:
    """For tests of what programs do while they run, not of how they start and end: a third of their processor time."""
    folders = [str(QUICK_START), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def environment(**extra: str) -> dict[str, str]:
    """The environment without what a launcher may have left in it, and the backend's name for the programs."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TORCHELASTIC", "MASTER_", "PYTEST"))}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        inherited.pop(name, None)
    return {**inherited, "TEST_BACKEND": BACKEND, "OMP_NUM_THREADS": "1", **extra}


def rank_environment(rank: int, size: int, store_port: int) -> dict[str, str]:
    """What torchrun gives a rank; the store at `store_port` is there already."""
    return environment(
        RANK=str(rank),
        WORLD_SIZE=str(size),
        LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(store_port),
        TORCHELASTIC_USE_AGENT_STORE="True",
    )


class Program:
    """One running Python program; its output is collected when it ends."""

    def __init__(self, name: str, *arguments: str, env: dict[str, str], module: str | None = None) -> None:
        command = [sys.executable, *(["-m", module] if module else []), str(PROGRAMS / name), *arguments]
        if module:
            command = [sys.executable, "-m", module, *arguments, str(PROGRAMS / name)]
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def read_line(self) -> str:
        """The next line that the program prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def say(self, line: str) -> None:
        """A line for the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, limit: float = LAUNCH_LIMIT_S) -> Ended:
        """Wait for the end; a program that runs past the limit is killed, and its exit code is -9."""
        try:
            output, _ = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
            output += f"\n(killed by the test after {limit:g} s)"
        return Ended(self.process.returncode, output)


@contextmanager
def programs(makers: list[Callable[[], Program]]) -> Iterator[list[Program]]:
    """Run several programs at once; whatever happens in between, none is left running."""
    running: list[Program] = []
    try:
        for make in makers:
            running.append(make())
        yield running
    finally:
        for program in running:
            if program.process.poll() is None:
                program.process.kill()
            for stream in (program.process.stdin, program.process.stdout):
                if stream is not None:
                    stream.close()
            program.process.wait()


def run_ranks(name: str, size: int, *arguments: str, **extra: str) -> list[Ended]:
    """Run a program of test/python/programs in `size` ranks, all to the end. Their store lives in this process."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    makers = [
        (lambda rank=rank: Program(name, *arguments, env={**rank_environment(rank, size, store.port), **extra}))
        for rank in range(size)
    ]
    with programs(makers) as running:
        deadline = time.monotonic() + LAUNCH_LIMIT_S
        return [program.end(max(0.1, deadline - time.monotonic())) for program in running]
