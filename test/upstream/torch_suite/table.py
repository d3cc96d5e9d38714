"""Outcomes as text: docs/upstream-tests.md, and a summary for the terminal."""

from __future__ import annotations

import platform
from collections import defaultdict

import torch

from .reasons import REASONS
from .results import Outcome, Run

KINDS = ("passed", "failed", "skipped")
OURS, REFERENCE = "customccl", "gloo"
NOTHING, NOT_COMPARED = "Nothing.\n", "Not compared: only one of the two ran.\n"
INTRODUCTION = """\
# torch's own distributed tests

Made by `make test-upstream` (test/upstream/run.py); do not edit. torch {torch}, Python {python}, CPU tensors, no GPU
visible.

The tests are those of `torch.testing._internal.distributed.distributed_test`, which ships in every torch wheel. Every
test that runs starts its ranks as processes, and the exit code of each of them is checked. The file decides by name
which backend runs which test, so its lists are opened for customccl at import (test/upstream/torch_suite/rewrite.py):
it runs whatever gloo runs and the CPU tests written for MPI (all_to_all), and the helper groups of a test are of the
backend under test too. Tests that torch skips below 8 ranks run from 3 ranks on, for both backends.
"""


def document(runs: list[Run]) -> str:
    parts = [INTRODUCTION.format(torch=torch.__version__, python=platform.python_version())]
    parts += ["## Outcomes\n", _counts(runs)]
    parts += ["## What customccl ought to pass and does not\n", _losses(runs)]
    parts += ["## What customccl passes and gloo does not\n", _gains(runs)]
    parts += ["## Why tests are skipped\n", _skips(runs)]
    parts += ["## Every test that ran\n", _details(runs)]
    return "\n".join(parts)


def summary(runs: list[Run]) -> str:
    """A line for each run."""
    return "\n".join(f"{run.backend} with {run.size} ranks: " + _count(run.outcomes()) for run in runs)


def unexplained(runs: list[Run]) -> list[str]:
    """A line for each test that customccl ought to pass, does not, and that reasons.py does not explain."""
    return [
        f"not explained: {outcome.name} with {size} ranks: {outcome.sentence}"
        for size, outcome in _lost(runs)
        if outcome.name not in REASONS
    ]


def _by_kind(outcomes: dict[str, Outcome]) -> dict[str, list[Outcome]]:
    return {kind: [o for o in outcomes.values() if o.outcome == kind] for kind in KINDS}


def _count(outcomes: dict[str, Outcome]) -> str:
    kinds = _by_kind(outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes.values())
    return ", ".join(f"{len(kinds[kind])} {kind}" for kind in KINDS) + f" in {seconds:.0f} s"


def _counts(runs: list[Run]) -> str:
    rows = []
    for run in runs:
        outcomes = run.outcomes()
        kinds = _by_kind(outcomes)
        seconds = sum(outcome.seconds for outcome in outcomes.values())
        rows.append([run.backend, run.size, *(len(kinds[kind]) for kind in KINDS), f"{seconds:.0f}"])
    return _table(["backend", "ranks", *KINDS, "seconds"], rows)


def _pairs(runs: list[Run]) -> list[tuple[int, dict[str, Outcome], dict[str, Outcome]]]:
    """For each number of ranks that both backends ran with: the number, our outcomes, gloo's."""
    found = {(run.backend, run.size): run.outcomes() for run in runs}
    sizes = sorted({size for _, size in found})
    return [
        (size, found[OURS, size], found[REFERENCE, size])
        for size in sizes
        if found.get((OURS, size)) and found.get((REFERENCE, size))
    ]


def _lost(runs: list[Run]) -> list[tuple[int, Outcome]]:
    """What gloo passes and we do not, and what we alone run (the tests written for MPI) and fail."""
    return [
        (size, ours[name])
        for size, ours, reference in _pairs(runs)
        for name in sorted(ours.keys() & reference.keys())
        if (ours[name].outcome, reference[name].outcome)
        in {("failed", "passed"), ("skipped", "passed"), ("failed", "skipped")}
    ]


def _losses(runs: list[Run]) -> str:
    lost = _lost(runs)
    if not lost:
        return NOTHING if _pairs(runs) else NOT_COMPARED
    rows = [[f"`{o.name}`", size, REASONS.get(o.name, f"Not explained: {o.sentence}")] for size, o in lost]
    return _table(["test", "ranks", "reason"], rows)


def _gains(runs: list[Run]) -> str:
    rows = [
        [f"`{name}`", size, _why(reference[name])]
        for size, ours, reference in _pairs(runs)
        for name in sorted(ours)
        if ours[name].outcome == "passed" and name in reference and reference[name].outcome != "passed"
    ]
    if not rows:
        return NOTHING if _pairs(runs) else NOT_COMPARED
    return _table(["test", "ranks", "gloo"], rows)


def _skips(runs: list[Run]) -> str:
    counts: dict[str, dict[Run, int]] = defaultdict(lambda: defaultdict(int))
    for run in runs:
        for outcome in _by_kind(run.outcomes())["skipped"]:
            counts[outcome.sentence][run] += 1
    reasons = sorted(counts, key=lambda reason: (-sum(counts[reason].values()), reason))
    heads = ["torch's reason", *(f"{run.backend}, {run.size} ranks" for run in runs)]
    return _table(heads, [[reason, *(counts[reason][run] for run in runs)] for reason in reasons])


def _details(runs: list[Run]) -> str:
    found = {run: run.outcomes() for run in runs}
    names = sorted({name for outcomes in found.values() for name, o in outcomes.items() if o.outcome != "skipped"})
    rows = [[f"`{name}`", *(found[run][name].outcome if name in found[run] else "" for run in runs)] for name in names]
    return _table(["test", *(f"{run.backend}, {run.size} ranks" for run in runs)], rows)


def _why(outcome: Outcome) -> str:
    return f"{outcome.outcome}: {outcome.sentence}"


def _table(heads: list[str], rows: list[list[object]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
