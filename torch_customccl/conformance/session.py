"""One run from selection to result: the only place that knows all parts."""

from __future__ import annotations

import datetime
import os
import shlex
import sys
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from rich.console import Console

from . import environment, expected, registry
from .fair_clock import queue_is_told
from .model import Case, CaseResult, Tier, Verdict
from .plan import Selection, portions, select
from .pool import Pool
from .profiles import PROFILES
from .progress import Progress
from .ranks import launched, own_processes
from .report.result import Result, RunFacts, build
from .runner import Limits, Runner

TIER_BUDGET_S = {Tier.SMOKE: 60.0, Tier.STANDARD: 300.0, Tier.FULL: 1200.0, Tier.LARGE: 2400.0}
OFFICIAL_RUNS = 3
_PRELOAD = ["torch_customccl.conformance.worker", "torch_customccl.conformance.preload"]
_HEAVY = ["torch_customccl.conformance.preload_heavy"]


@dataclass(frozen=True)
class Request:
    """Everything a run is asked to do."""

    backend: str
    imports: tuple[str, ...] = ()
    selection: Selection = field(default_factory=Selection)
    limits: Limits = field(default_factory=Limits)
    budget_s: float | None = None
    seed: int = 1
    env: dict[str, str] = field(default_factory=dict)
    pg_options: str = ""
    expectations: Path | None = None
    official: bool = False
    repeat: int = 1
    launcher: str = ""


def chosen_cases(request: Request) -> list[Case]:
    """The cases of a request, in a fixed order."""
    return select(registry.all_cases(), request.selection, PROFILES)


def run(request: Request, console: Console, stop: threading.Event | None = None) -> Result:
    """Run a request and give the result. ``stop``, when set, ends the run soon; what had not run is not_run."""
    torch.set_num_threads(1)
    known = expected.load(request.expectations) if request.expectations else []
    cases = chosen_cases(request)
    speed = environment.cpu_slowness()
    scale = max(speed, environment.crowd())
    budget = request.budget_s if request.budget_s is not None else scale * TIER_BUDGET_S[request.selection.tier]
    speed = speed if queue_is_told() else scale
    limits = replace(request.limits, budget_s=budget, scale=scale, speed=speed, confirm_all=request.official)
    limits = replace(limits, deaths=not request.launcher)
    started, clock = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
    results, spoiled = _run_cases(request, cases, limits, console, stop or threading.Event())
    facts = _facts(request, started, time.monotonic() - clock, scale, spoiled)
    if request.expectations:
        facts.warnings += expected.apply(results, known, started.date())
    return build(facts, results)


def _run_cases(
    request: Request, cases: list[Case], limits: Limits, console: Console, stop: threading.Event
) -> tuple[list[CaseResult], list[str]]:
    """The results of all runs in one, and what happened that makes them unofficial."""
    os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "MALLOC_PERTURB_": "165", **request.env})
    heavy = any(case.family == "integration" or case.body == "functional" for case in cases)
    preload = _PRELOAD + (_HEAVY if heavy else [])
    pool = Pool(
        request.backend,
        request.imports,
        request.selection.device,
        request.env,
        request.pg_options,
        launched(request.launcher) if request.launcher else own_processes(request.selection.device, preload),
    )
    try:
        with Progress(len(cases) * request.repeat, limits.budget_s, console) as progress:
            results: list[CaseResult] = []
            spoiled: dict[str, None] = {}
            for _ in range(request.repeat):
                again = Runner(pool, limits, progress.add, stop).run(portions(cases, request.seed))
                spoiled |= dict.fromkeys(text for text in map(_spoils, again) if text)
                if results and not merge_repeat(results, again):
                    spoiled["not every case ran each time"] = None
                results = results or again
                if _INTERRUPTED in spoiled:
                    break
            flaky = sum(result.verdict is Verdict.FLAKY for result in results)
            return results, [*spoiled, *([f"{flaky} verdicts changed when run again"] if flaky else [])]
    finally:
        pool.close()


_INTERRUPTED = "interrupted"


def _spoils(result: CaseResult) -> str:
    reasons = {"budget": "the budget ran out before all cases had run", "interrupted": _INTERRUPTED}
    return reasons.get(result.reason, "") if result.verdict is Verdict.NOT_RUN else ""


def merge_repeat(results: list[CaseResult], again: list[CaseResult]) -> bool:
    """A case whose verdict changes between repeats is flaky. False if a case ran in some repeats only."""
    complete = True
    for index, (first, other) in enumerate(zip(results, again, strict=True)):
        if first.verdict is other.verdict:
            continue
        if Verdict.NOT_RUN in (first.verdict, other.verdict):
            complete = False
            results[index] = other if first.verdict is Verdict.NOT_RUN else first
        else:
            first.reason = f"{first.verdict.value}, then {other.verdict.value} on repeat: {other.message[:300]}"
            first.ranks = first.ranks or other.ranks
            first.verdict = Verdict.FLAKY
    return complete


def _facts(request: Request, started: datetime.datetime, seconds: float, scale: float, spoiled: list[str]) -> RunFacts:
    selection = request.selection
    why = []
    if not request.official:
        why.append("not run with --official")
    if selection.filtered:
        why.append("cases were filtered")
    if request.expectations:
        why.append("an expectations file was used")
    if selection.tier is Tier.SMOKE:
        why.append("smoke tier")
    if request.launcher:
        why.append("ranks were started by a launcher")
    why += spoiled
    prefix = f"python -m torch_customccl.conformance --backend {request.backend}"
    prefix += "".join(f" --import {name}" for name in request.imports)
    prefix += f" --device {selection.device}" if selection.device != "cpu" else ""
    prefix += "".join(f" --env {shlex.quote(f'{name}={value}')}" for name, value in request.env.items())
    prefix += f" --pg-options {shlex.quote(request.pg_options)}" if request.pg_options else ""
    prefix += f" --launcher {shlex.quote(request.launcher)}" if request.launcher else ""
    prefix += f" --seed {request.seed}"
    return RunFacts(
        backend=request.backend,
        device=selection.device,
        tier=selection.tier.value,
        seed=request.seed,
        command="python -m torch_customccl.conformance " + " ".join(shlex.quote(word) for word in sys.argv[1:]),
        official=not why,
        unofficial_because=why,
        git=environment.git_revision(),
        product=environment.product(request.backend, request.imports),
        environment=environment.machine(),
        started=started.isoformat(timespec="seconds"),
        seconds=seconds,
        repro_prefix=prefix,
        scale=scale,
        runs=request.repeat,
    )
