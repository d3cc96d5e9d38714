"""What a failed test says about its ranks: who failed and how, what the others were doing, what they printed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .messages import Failed, Returned

STACK_WAIT_S = 2.0
LOG_LINES = 40


def failure(body: Callable[..., Any] | None, seats: Sequence[Any], outcomes: Sequence[Any]) -> str:
    title = body.__qualname__ if body is not None else "the end of the set"
    parts = [f"{title}, {len(seats)} ranks: " + ", ".join(_word(rank, o) for rank, o in enumerate(outcomes))]
    for seat, outcome in zip(seats, outcomes, strict=True):
        if isinstance(outcome, Failed):
            parts.append(f"---- rank {seat.rank}: {outcome.error}\n{outcome.traceback}".rstrip())
        stack, log = _read(seat.stack_path), _read(seat.log_path)
        if stack:
            parts.append(f"---- rank {seat.rank}, stacks\n{stack}")
        if log and not isinstance(outcome, Returned):
            parts.append(f"---- rank {seat.rank}, end of its output\n{log}")
    return "\n".join(parts)


def stacks(seats: Sequence[Any]) -> str:
    return "\n".join(f"---- rank {seat.rank}, stacks\n{_read(seat.stack_path)}" for seat in seats)


def dump_stacks(seats: Sequence[Any], pids: dict[int, int]) -> None:
    """Every living rank writes the Python stacks of its threads into its file, also a stopped one."""
    for rank, pid in pids.items():
        with seats[rank].stack_path.open("a") as file:
            file.write(_threads(pid))
        sizes = seats[rank].stack_path.stat().st_size
        os.kill(pid, signal.SIGUSR1)
        os.kill(pid, signal.SIGCONT)
        # A signal is taken in within microseconds, but on a loaded machine a process may have to wait for its turn.
        deadline = time.monotonic() + STACK_WAIT_S
        while seats[rank].stack_path.stat().st_size == sizes and time.monotonic() < deadline:
            time.sleep(0.01)


def _threads(pid: int) -> str:
    lines = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            name = (task / "comm").read_text().strip()
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            where = (task / "wchan").read_text().strip()
        except OSError:
            continue
        lines.append(f"thread {task.name} {name!r}: state {state}, in the kernel at {where}")
    return "\n".join(lines) + "\n"


def _word(rank: int, outcome: Any) -> str:
    if isinstance(outcome, Returned):
        return f"rank {rank} fine"
    if isinstance(outcome, Failed):
        return f"rank {rank} FAILED"
    code = outcome.exit_code
    if code is None:
        return f"rank {rank} gone"
    if code < 0:
        return f"rank {rank} DIED of {signal.Signals(-code).name}"
    return f"rank {rank} ENDED with exit code {code}"


def _read(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-LOG_LINES:])
