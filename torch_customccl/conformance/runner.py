"""Runs portions of cases on worker sets: deadlines, restarts, hang budget, reruns, bisection."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from queue import Empty, Queue
from typing import Any

from .confirm import TIMED, confirmed, starved
from .judge import judge
from .model import RED, Case, CaseResult, Verdict
from .plan import Portion
from .pool import Pool, StartFailedError, WorkerSet
from .worker import CallersMistakeError

STOP_LOOK_S = 0.2
HANGS_PER_KEY = 3
CONFIRMED_PER_KEY = 2
OP_TIMEOUT_SCALE = 2.0
"""The backend's own timeout is stretched at most so far on a busy machine; the hard deadline moves by itself."""


@dataclass(frozen=True)
class Limits:
    """The clocks of a run, in seconds."""

    op_timeout_s: float = 3.0
    deadline_s: float = 10.0
    budget_s: float = 300.0
    scale: float = 1.0
    """How much longer than nominal things take on this machine now."""
    speed: float = 1.0
    """The same for a process that has a processor of its own."""
    lanes: int = 3
    rerun: bool = True
    confirm_all: bool = False
    deaths: bool = True
    """False: ranks must not die, because their launcher would end the others."""


class _StoppedError(Exception):
    """The run is being ended: no more ranks are started."""


class Runner:
    """Gives every case exactly one result, whatever the backend does."""

    def __init__(
        self, pool: Pool, limits: Limits, on_result: Callable[[CaseResult], None], stop: threading.Event | None = None
    ) -> None:
        self._pool, self._limits, self._on_result = pool, limits, on_result
        self._results: dict[str, CaseResult] = {}
        self._hangs: Counter[str] = Counter()
        self._blocked_by: dict[str, str] = {}
        self._confirmed: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._stop = stop or threading.Event()
        self._until = time.monotonic() + limits.budget_s

    def run(self, portions: list[Portion]) -> list[CaseResult]:
        """Run everything. When told to stop, end all ranks and mark what they had not finished as not run."""
        queue: Queue[Portion] = Queue()
        for portion in portions:
            queue.put(portion)
        with ThreadPoolExecutor(self._limits.lanes) as executor:
            others = multiprocessing.active_children()
            lanes = [executor.submit(self._lane, queue) for _ in range(self._limits.lanes)]
            try:
                self._watch(lanes, others)
            except KeyboardInterrupt:
                self._stop.set()
                self._watch(lanes, others)
                raise
        for portion in portions:
            for case in portion.cases:
                if case.id not in self._results:
                    self._results[case.id] = CaseResult(case, Verdict.NOT_RUN, reason="interrupted")
        return [self._results[case.id] for portion in portions for case in portion.cases]

    def _watch(self, lanes: list[Future[None]], others: list[BaseProcess]) -> None:
        """Wait for the lanes; raise what one of them raised. Once told to stop, no lane shall wait for its ranks."""
        left = set(lanes)
        while left:
            done, left = wait(left, STOP_LOOK_S)
            if any(lane.exception() for lane in done):
                self._stop.set()
            if self._stop.is_set():
                for process in multiprocessing.active_children():
                    if process not in others:
                        process.kill()
        for lane in lanes:
            lane.result()

    def _lane(self, queue: Queue[Portion]) -> None:
        while not self._stop.is_set():
            try:
                self._run_portion(queue.get_nowait())
            except (Empty, _StoppedError):
                return
            except (EOFError, OSError):
                # The fork server is gone. A signal to the process group ends it, too, and may come here a moment later.
                if not self._stop.wait(STOP_LOOK_S):
                    raise
                return

    def _run_portion(self, portion: Portion) -> None:
        workers: WorkerSet | None = None
        try:
            for case in portion.cases:
                if self._stop.is_set():
                    return
                reason = self._not_run_reason(case)
                if reason:
                    self._record(CaseResult(case, Verdict.NOT_RUN, reason=reason))
                    continue
                if workers is None or not workers.alive:
                    workers = self._start(case)
                    if workers is None:
                        continue
                self._run_case(case, workers)
        finally:
            if workers is not None:
                workers.stop()

    def _not_run_reason(self, case: Case) -> str:
        if time.monotonic() > self._until:
            return "budget"
        if case.may_die and not self._limits.deaths:
            return "a rank dies in this case, which its launcher would not bear"
        with self._lock:
            blocker = self._blocked_by.get(_hang_key(case))
        return f"blocked by {blocker}" if blocker else ""

    def _start(self, case: Case) -> WorkerSet | None:
        try:
            return self._start_set(case)
        except StartFailedError as error:
            crashed = any(outcome.outcome in ("died", "stuck") for outcome in error.outcomes)
            verdict, why = judge(case, error.outcomes, None)
            verdict = verdict if crashed or verdict is Verdict.UNSUPPORTED else Verdict.ERROR
            reason = f"the process group could not be made: {why if crashed and why else error}"
            self._record(CaseResult(case, verdict, error.outcomes, reason))
            return None

    def _start_set(self, case: Case) -> WorkerSet:
        """A new set; a group that cannot be made is tried once more. A mistake of the caller's ends the run."""
        try:
            return self._start_once(case)
        except StartFailedError as error:
            for outcome in error.outcomes:
                if outcome.exc_type == CallersMistakeError.__name__:
                    raise ValueError(outcome.message) from None
            return self._start_once(case)

    def _start_once(self, case: Case) -> WorkerSet:
        if self._stop.is_set():
            raise _StoppedError
        return self._pool.start(case.world_size, self._op_timeout(case.setup), self._deadline(case), case.setup)

    def _op_timeout(self, setup: dict[str, Any]) -> float:
        return float(setup.get("op_timeout_s", self._limits.op_timeout_s)) * min(self._limits.scale, OP_TIMEOUT_SCALE)

    def _deadline(self, case: Case) -> float:
        stretch = max(self._limits.speed, min(self._limits.scale, OP_TIMEOUT_SCALE))
        return float(case.setup.get("deadline_s", self._limits.deadline_s)) * stretch

    def _run_case(self, case: Case, workers: WorkerSet) -> None:
        result = self._try(case, workers)
        if self._wants_rerun(result):
            before = list(workers.ran[:-1]) if case.isolation == "warm" else []
            result = self._confirmed_result(result, before)
        self._count_hang(result)
        self._record(result)

    def _try(self, case: Case, workers: WorkerSet) -> CaseResult:
        started = time.monotonic()
        outcomes = workers.run(case, self._deadline(case))
        usable: bool | None = None
        if workers.alive and any(outcome.outcome in ("raised", "check") for outcome in outcomes):
            usable = workers.usable(case, self._deadline(case))
        verdict, reason = judge(case, outcomes, usable)
        queued_s = workers.queued_s() if verdict in TIMED else 0.0
        if not workers.alive:
            workers.kill()
        took_ms = round((time.monotonic() - started) * 1e3, 2)
        return CaseResult(case, verdict, outcomes, reason, took_ms, queued_s)

    def _wants_rerun(self, result: CaseResult) -> bool:
        """Confirm the first few findings of a kind; the rest are taken to be the same."""
        if self._stop.is_set() or time.monotonic() > self._until:
            return False
        if starved(result, self._op_timeout(result.case.setup)):
            return True
        if result.verdict not in RED or not self._limits.rerun:
            return False
        key = finding_key(result)
        with self._lock:
            self._confirmed[key] += 1
            few = self._confirmed[key] <= CONFIRMED_PER_KEY
        return few or self._limits.confirm_all

    def _confirmed_result(self, result: CaseResult, before: list[Case]) -> CaseResult:
        was_starved = starved(result, self._op_timeout(result.case.setup))
        return confirmed(result, before, self._alone, self._until, was_starved)

    def _alone(self, case: Case, first: list[Case]) -> CaseResult:
        """The result in a new set after the given cases."""
        try:
            workers = self._start_set(case)
        except StartFailedError as error:
            return CaseResult(case, Verdict.ERROR, error.outcomes, f"the process group could not be made: {error}")
        try:
            for earlier in first:
                self._try(earlier, workers)
                if not workers.alive:
                    return CaseResult(case, Verdict.NOT_RUN, reason=f"{earlier.id} ended the ranks")
            return self._try(case, workers)
        finally:
            workers.stop()

    def _count_hang(self, result: CaseResult) -> None:
        slow = result.duration_ms > 800 * self._op_timeout(result.case.setup) and result.case.isolation == "warm"
        if result.verdict is Verdict.HANG or (result.verdict in RED and slow):
            key = _hang_key(result.case)
            with self._lock:
                self._hangs[key] += 1
                if self._hangs[key] >= HANGS_PER_KEY:
                    self._blocked_by.setdefault(key, result.case.id)

    def _record(self, result: CaseResult) -> None:
        if self._stop.is_set():
            return  # the kit itself may have ended its ranks
        with self._lock:
            self._results[result.case.id] = result
            self._on_result(result)


def _hang_key(case: Case) -> str:
    return f"{case.family}/{case.op}/{case.dims.get('kind') or case.dims.get('layout', '')}"


def finding_key(result: CaseResult) -> str:
    """Findings with the same key are one finding: same family, operation, layout, kind and verdict."""
    dims = result.case.dims
    layout = str(dims.get("layout", ""))
    detail = dims.get("kind") or (dims.get("reduce_op") if layout in ("contiguous", "offset") else "") or ""
    sort = "bool" if dims.get("dtype") == "bool" and layout in ("contiguous", "offset") else ""
    parts = (result.case.family, result.case.op, layout, detail, sort, result.verdict.value)
    return "/".join(str(part) for part in parts if part)
