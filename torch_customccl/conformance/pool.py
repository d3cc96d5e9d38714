"""The parent's side of a worker set: start the ranks, hand out cases, watch the clock, collect stacks, kill."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from contextlib import suppress
from itertools import count
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from .fair_clock import FairClock
from .model import Case, RankOutcome
from .plan import LAST
from .ranks import Starter
from .worker import STACK_SIGNAL, WorkerSpec

START_LIMIT_S = 60.0
STOP_LIMIT_S = 3.0
UNKNOWN_EXIT_CODE = 255
"""What multiprocessing gives when two threads of this process ask at once how a rank has ended."""
STACK_WAIT_S = 0.2
STACK_LIMIT_S = 4.0


class StartFailedError(Exception):
    """The ranks could not make their process group; ``outcomes`` say why."""

    def __init__(self, outcomes: list[RankOutcome]) -> None:
        super().__init__(next((outcome.message for outcome in outcomes if outcome.message), "no rank became ready"))
        self.outcomes = outcomes


class ProbeLostError(Exception):
    """The ranks made their group, but its first all_reduce never came back, or a rank died in it."""


class WorkerSet:
    """The ranks of one world. Any member may die or hang; this object survives it."""

    def __init__(self, start: Starter, spec: WorkerSpec, probe_s: float | None) -> None:
        self.spec = spec
        self.sane = False
        self.ran: list[Case] = []
        self.alive = True
        self._pipes, self._processes = start(spec)
        self._clock = self._case_clock = FairClock(0.0, ())
        self._started(self._collect("ready", START_LIMIT_S, grace_s=2.0))
        if probe_s is not None and spec.init:
            self._probe_at_start(probe_s)

    def _started(self, answers: list[Any]) -> None:
        failed = [outcome for outcome in answers if isinstance(outcome, RankOutcome)]
        if failed:
            self.kill()
            raise StartFailedError(failed)

    def _probe_at_start(self, probe_s: float) -> None:
        self._send("probe", None)
        answers = self._collect("probed", probe_s, grace_s=2.0)
        if any(isinstance(answer, RankOutcome) for answer in answers):
            self.kill()
            raise ProbeLostError
        self.sane = all(answers)

    def run(self, case: Case, deadline_s: float) -> list[RankOutcome]:
        """Run a case on all ranks; every rank gets an outcome, whatever happens.

        After the last case of a portion (plan.LAST) the ranks leave, and one that cannot leave has not passed.
        """
        self.ran.append(case)
        self._send("case", case)
        outcomes = self._collect("done", deadline_s, grace_s=1.5, may_die=case.may_die)
        self._case_clock = self._clock
        for outcome in outcomes:
            if outcome.outcome in ("stuck", "died") and outcome.rank not in case.may_die:
                self.alive = False
        if case.may_die:
            self.alive = False
        if case.setup.get(LAST) and self.alive and all(outcome.outcome == "ok" for outcome in outcomes):
            return self._leave(outcomes, deadline_s)
        return outcomes

    def _leave(self, outcomes: list[RankOutcome], deadline_s: float) -> list[RankOutcome]:
        """End the ranks as ``stop`` does; a rank that dies or does not come back gets that as its outcome."""
        self.alive = False
        self._send("stop", None)
        answers = self._collect("stopped", deadline_s, grace_s=STOP_LIMIT_S)
        for rank, answer in enumerate(answers):
            left = answer if isinstance(answer, RankOutcome) else self._died(rank)
            if left is answer or left.exit_code not in (None, 0, UNKNOWN_EXIT_CODE):
                left.message = f"destroying the group after the case: {left.message}"
                outcomes[rank] = left
        return outcomes

    def usable(self, case: Case, deadline_s: float) -> bool:
        """True if the default group, and the groups of the case, still work (or never did)."""
        if not self.alive or not self.sane:
            return self.alive
        self._send("probe", case)
        answers = self._collect("probed", deadline_s, grace_s=0.5)
        good = all(answer is True for answer in answers)
        self.alive = self.alive and good
        return good

    def queued_s(self) -> float:
        """How long a rank has stood in line for a processor since its last case began."""
        return self._case_clock.queued_s()

    def _send(self, kind: str, payload: object) -> None:
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send((kind, payload))

    def _collect(self, kind: str, deadline_s: float, grace_s: float, may_die: tuple[int, ...] = ()) -> list[Any]:
        """One answer per rank. After an unexpected death the others get only the grace."""
        self._clock = clock = FairClock(deadline_s, [process.pid for process in self._processes])
        answers: dict[int, Any] = {}
        needed = {rank for rank in range(len(self._pipes)) if rank not in may_die}
        while not needed <= answers.keys() and (left := clock.left()) > 0:
            waiting = {rank: pipe for rank, pipe in enumerate(self._pipes) if rank not in answers}
            for ready in wait(list(waiting.values()), timeout=left):
                rank = next(rank for rank, pipe in waiting.items() if pipe is ready)
                answers[rank] = self._receive(rank, kind)
                if isinstance(answers[rank], RankOutcome) and answers[rank].outcome == "died" and rank not in may_die:
                    clock.shorten(grace_s)
        missing = [rank for rank in range(len(self._pipes)) if rank not in answers]
        stacks = self._stacks([rank for rank in missing if rank in needed])
        for rank in missing:
            answers[rank] = RankOutcome(
                rank, "stuck", message=f"no answer within {deadline_s:.1f} s", stack=stacks.get(rank, "")
            )
        return [answers[rank] for rank in range(len(self._pipes))]

    def _receive(self, rank: int, kind: str) -> Any:
        try:
            said, payload = self._pipes[rank].recv()
        except (EOFError, OSError):
            return self._died(rank)
        if said not in (kind, "failed"):
            return RankOutcome(rank, "harness", message=f"rank answered {said} where {kind} was due")
        return payload

    def _died(self, rank: int) -> RankOutcome:
        process = self._processes[rank]
        process.join(2.0)
        code = process.exitcode
        name = signal.Signals(-code).name if code is not None and code < 0 else ""
        what = f"killed by {name}" if name else "ended" if code is None else f"exited with code {code}"
        return RankOutcome(
            rank,
            "died",
            message=f"rank process {what}",
            traceback=self._log(rank),
            stack=self._stack_file(rank),
            exit_code=code,
            signal=name,
        )

    def _stacks(self, ranks: list[int]) -> dict[int, str]:
        """Ask the given ranks for the stacks of all their threads; wait until they are written, but not for ever."""
        for rank in ranks:
            with suppress(ProcessLookupError):
                os.kill(self._processes[rank].pid, STACK_SIGNAL)
        limit = time.monotonic() + STACK_LIMIT_S
        while time.monotonic() < limit and not all(self._stack_file(rank) for rank in ranks):
            time.sleep(0.05)
        if ranks:
            time.sleep(STACK_WAIT_S)
        return {rank: self._stack_file(rank) for rank in ranks}

    def _stack_file(self, rank: int) -> str:
        path = Path(self.spec.directory) / f"rank{rank}.stacks"
        return path.read_text(errors="replace")[-6000:] if path.exists() else ""

    def _log(self, rank: int) -> str:
        """The end of what a rank printed."""
        path = Path(self.spec.directory) / f"rank{rank}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def stop(self) -> None:
        """Let the ranks leave in peace; kill those that do not."""
        if self.alive:
            self._send("stop", None)
            self._collect("stopped", STOP_LIMIT_S, grace_s=STOP_LIMIT_S)
        self.kill()

    def kill(self) -> None:
        """End every rank and whatever it started, at once."""
        self.alive = False
        for process in self._processes:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            process.join(5.0)
            pipe.close()


class Pool:
    """Starts worker sets for one run."""

    def __init__(
        self,
        backend: str,
        imports: tuple[str, ...],
        device: str,
        env: dict[str, str],
        pg_options: str,
        start: Starter,
    ) -> None:
        self._backend, self._imports, self._device = backend, imports, device
        self._env, self._pg_options = env, pg_options
        self._start = start
        self._directory = tempfile.TemporaryDirectory(prefix="conformance-")
        self._numbers = count(1)
        self._mute: set[int] = set()

    def start(self, world_size: int, op_timeout_s: float, deadline_s: float, setup: dict[str, Any]) -> WorkerSet:
        """A new worker set. Raises StartFailedError if the backend cannot make its group.

        Each set is probed with one all_reduce; where that hung or a rank died, sets of this size are no longer probed.
        """
        if world_size not in self._mute:
            try:
                return WorkerSet(self._start, self._spec(world_size, op_timeout_s, setup), deadline_s)
            except ProbeLostError:
                self._mute.add(world_size)
        return WorkerSet(self._start, self._spec(world_size, op_timeout_s, setup), None)

    def _spec(self, world_size: int, op_timeout_s: float, setup: dict[str, Any]) -> WorkerSpec:
        number = next(self._numbers)
        directory = Path(self._directory.name) / f"set{number}"
        directory.mkdir()
        return WorkerSpec(
            self._backend,
            self._imports,
            self._device,
            world_size,
            str(directory / "store"),
            op_timeout_s,
            str(directory),
            self._env | setup.get("env", {}),
            setup.get("init", True),
            self._pg_options,
        )

    def close(self) -> None:
        """Remove the ranks' files."""
        self._directory.cleanup()
