"""Sets of ranks. A warm set serves one body after the other; a set in which anything went wrong is replaced.

Coordination goes over pipes to the test's process, and the store belongs to that process: nothing relies on the
backend under test, and no killed rank takes anything away but itself.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from typing import Any

import pytest
import torch.distributed as dist

from . import report, worker
from .messages import Event, Failed, Leave, Returned, Task, pack, unpack
from .remote import name_of
from .settings import GRACE_S, GROUP_TIMEOUT_S, HARD_LIMIT_S

Body = Callable[..., Any]
context = multiprocessing.get_context("forkserver")


@dataclass(frozen=True)
class Died:
    """A rank that ended instead of answering: its exit code, negative for a signal."""

    exit_code: int | None


Outcome = Returned | Failed | Died


class WorkerSet:
    """`size` processes that form one group. Not thread-safe: one test uses it at a time."""

    def __init__(self, size: int, store_port: int, prefix: str, *, timeout: float, init: bool) -> None:
        self.size = size
        self.healthy = True
        self._directory = tempfile.TemporaryDirectory(prefix="ranks-")
        self._events: dict[int, deque[Event]] = defaultdict(deque)
        self._outcomes: dict[int, Outcome] = {}
        self._busy = False
        self._pipes: list[connection.Connection] = []
        self.processes: list[Any] = []
        self._seats = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            seat = worker.Seat(rank, size, store_port, prefix, timeout, init, self._directory.name)
            process = context.Process(target=worker.main, args=(seat, theirs), name=f"rank {rank}")
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
            self._seats.append(seat)

    # -- running bodies

    def run(self, body: Body, *args: Any, limit: float = HARD_LIMIT_S) -> list[Any]:
        """Run `body(rank, size, *args)` in every rank; the results by rank. The test fails if any rank does."""
        self.start(body, *args)
        outcomes = self.finish(limit)
        if any(isinstance(outcome, Failed) and outcome.skipped for outcome in outcomes):
            pytest.skip(next(o.error for o in outcomes if isinstance(o, Failed)))
        if not all(isinstance(outcome, Returned) for outcome in outcomes):
            pytest.fail(report.failure(body, self._seats, outcomes), pytrace=False)
        return [outcome.value for outcome in outcomes if isinstance(outcome, Returned)]

    def start(self, body: Body, *args: Any) -> None:
        """Let every rank begin; follow with `wait_for`, `tell`, `kill`, and `finish`."""
        assert not self._busy, "the last body has not been finished"
        task = pack(Task(name_of(body), args))  # first: it may fail, and the pool is then as before
        self._busy = True
        self._outcomes.clear()
        self._events.clear()
        for rank, pipe in enumerate(self._pipes):
            try:
                pipe.send_bytes(task)
            except OSError:
                self._outcomes[rank] = Died(self._exit_code(rank))

    def finish(self, limit: float = HARD_LIMIT_S, without: frozenset[int] = frozenset()) -> list[Outcome]:
        """Wait for every rank not in `without` to answer or die. Past the limit: the stacks, then the end."""
        deadline, why = time.monotonic() + limit, f"after {limit:g} s"
        wanted = set(range(self.size)) - without
        while missing := sorted(wanted - self._outcomes.keys()):
            failed = [rank for rank, outcome in self._outcomes.items() if isinstance(outcome, Failed)]
            if failed and time.monotonic() + GRACE_S < deadline:
                deadline, why = time.monotonic() + GRACE_S, f"{GRACE_S:g} s after rank {failed[0]} had failed"
            if not self._receive(deadline):
                self._give_up(why, missing)
                break
        self._busy = False
        for rank in range(self.size):
            if rank not in self._outcomes:
                self._outcomes[rank] = Died(self._exit_code(rank, wait_s=0.0))
        outcomes = [self._outcomes[rank] for rank in range(self.size)]
        self.healthy = self.healthy and all(isinstance(outcome, Returned) for outcome in outcomes)
        return outcomes

    def wait_for(self, rank: int, event: str, limit: float = HARD_LIMIT_S) -> Any:
        """The payload of the next `event` that `rank` reports with `tell_parent`."""
        deadline = time.monotonic() + limit
        while not self._events[rank]:
            if rank in self._outcomes:
                pytest.fail(f"rank {rank} never reported {event!r}: {self._outcomes[rank]}", pytrace=False)
            if not self._receive(deadline):
                self._give_up(f"after {limit:g} s", [rank])
                pytest.fail(f"rank {rank} did not report {event!r}\n{report.stacks(self._seats)}", pytrace=False)
        happened = self._events[rank].popleft()
        assert happened.name == event, f"rank {rank} reported {happened.name!r} where {event!r} was awaited"
        return happened.payload

    def tell(self, rank: int, message: object) -> None:
        """What the body of `rank` hears with `hear_parent`."""
        self._pipes[rank].send_bytes(pack(message))

    # -- hurting ranks

    def pid(self, rank: int) -> int:
        pid = self.processes[rank].pid
        assert pid is not None
        return pid

    def send_signal(self, rank: int, number: signal.Signals) -> None:
        self.healthy = False
        os.kill(self.pid(rank), number)

    def kill(self, rank: int) -> float:
        """SIGKILL `rank`; the time on the monotonic clock, which all processes share, just before."""
        when = time.monotonic()
        self.send_signal(rank, signal.SIGKILL)
        return when

    def wait_for_death(self, rank: int) -> None:
        """Return when the process of a killed rank has ended."""
        self.processes[rank].join(HARD_LIMIT_S)
        assert not self.processes[rank].is_alive(), f"rank {rank} lives on"

    # -- the end

    def leave(self, limit: float = HARD_LIMIT_S) -> None:
        """Orderly end: every rank destroys its groups. The test fails if one does not end with exit code 0."""
        for pipe in self._pipes:
            pipe.send_bytes(pack(Leave()))
        self._outcomes.clear()
        outcomes = self.finish(limit)
        codes = [self._exit_code(rank, wait_s=GRACE_S) for rank in range(self.size)]
        text = report.failure(None, self._seats, outcomes)
        self.end()
        assert all(isinstance(outcome, Returned) for outcome in outcomes), f"destroying the groups: {text}"
        assert codes == [0] * self.size, f"exit codes of the ranks after an orderly end: {codes}\n{text}"

    def end(self) -> None:
        """Kill whatever is left and give everything back. Repeating it is harmless."""
        self.healthy = False
        for process in self.processes:
            if process.is_alive():
                process.kill()
        for process, pipe in zip(self.processes, self._pipes, strict=True):
            process.join()
            process.close()
            pipe.close()
        self.processes, self._pipes = [], []
        self._directory.cleanup()

    # -- inside

    def _receive(self, deadline: float) -> bool:
        """Take in what the ranks said, waiting for it until the deadline; False when that passed in silence."""
        waiting: dict[Any, int] = {}
        for rank in range(self.size):
            if rank not in self._outcomes:
                waiting[self._pipes[rank]] = rank
        ready = connection.wait(list(waiting), timeout=max(0.0, deadline - time.monotonic()))
        for pipe in ready:
            rank = waiting[pipe]
            try:
                message = unpack(self._pipes[rank].recv_bytes())
            except (EOFError, OSError):
                self._outcomes[rank] = Died(self._exit_code(rank))
                continue
            if isinstance(message, Event):
                self._events[rank].append(message)
            else:
                self._outcomes[rank] = message
        return bool(ready)

    def _exit_code(self, rank: int, wait_s: float = GRACE_S) -> int | None:
        self.processes[rank].join(wait_s)
        code: int | None = self.processes[rank].exitcode
        return code

    def _give_up(self, why: str, missing: list[int]) -> None:
        self.healthy = False
        alive = [rank for rank in range(self.size) if self.processes[rank].is_alive()]
        report.dump_stacks(self._seats, {rank: self.pid(rank) for rank in alive})
        for rank in missing:
            self._outcomes[rank] = Failed(f"still running {why}", "")
        for rank in alive:
            self.processes[rank].kill()


class Pool:
    """The warm sets of a test session, by size, and the store behind all sets."""

    def __init__(self) -> None:
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        context.set_forkserver_preload(["torch", "torch.distributed", "pytest", "numpy"])
        forkserver.ensure_running()  # now, so that what it keeps open is there before any test looks
        self._warm: dict[int, WorkerSet] = {}
        self._fresh: list[WorkerSet] = []
        self._made = 0
        atexit.register(self._kill_all)

    def warm(self, size: int) -> WorkerSet:
        workers = self._warm.get(size)
        if workers is None or not workers.healthy:
            if workers is not None:
                workers.end()
            workers = self._warm[size] = self._make(size, GROUP_TIMEOUT_S, init=True)
        return workers

    def fresh(self, size: int, timeout: float = GROUP_TIMEOUT_S, init: bool = True) -> WorkerSet:
        workers = self._make(size, timeout, init)
        self._fresh.append(workers)
        return workers

    def end_fresh(self) -> None:
        for workers in self._fresh:
            workers.end()
        self._fresh.clear()

    def close(self) -> None:
        """The orderly end of all warm sets; an AssertionError when a rank does not end cleanly."""
        self.end_fresh()
        try:
            for workers in self._warm.values():
                if workers.healthy:
                    workers.leave()
        finally:
            self._kill_all()

    @property
    def store_port(self) -> int:
        port: int = self._store.port
        return port

    def unique_name(self) -> str:
        self._made += 1
        return f"set{self._made}"

    def _make(self, size: int, timeout: float, init: bool) -> WorkerSet:
        return WorkerSet(size, self.store_port, self.unique_name(), timeout=timeout, init=init)

    def _kill_all(self) -> None:
        self.end_fresh()
        for workers in self._warm.values():
            workers.end()
        self._warm.clear()


class Ranks:
    """The `ranks` fixture: `ranks(3).run(body)`, or `ranks(3, fresh=True)` for processes that may be hurt."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def __call__(
        self, size: int, *, fresh: bool = False, timeout: float = GROUP_TIMEOUT_S, init: bool = True
    ) -> WorkerSet:
        return self.pool.fresh(size, timeout, init) if fresh else self.pool.warm(size)
