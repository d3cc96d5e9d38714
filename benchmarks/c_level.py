"""The C level: our C interface against the MPIs, in turns as the peers of the Python level (sampling.py).

A library needs processes of its own; all of them are there all the time, asleep but for those whose turn it is. A turn
takes milliseconds, so cores that move have moved for all libraries of nearly every round.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from benchmarks.c_libraries import Library, LibraryFailedError, Ranks, libraries
from benchmarks.machine import processors
from benchmarks.operations import actual_size, element_count
from benchmarks.plan import Cell, Plan
from benchmarks.sampling import FEWEST_ROUNDS, Limits, enough, program_burst, round_order


class Level:
    """The libraries at work with one number of ranks. One that fails is left out from then on."""

    def __init__(self, ranks: int, found: list[Library]) -> None:
        self.ranks = ranks
        self.failed: dict[str, str] = {}
        self.exchanges: list[int] = []
        self.running: dict[str, Ranks] = {}
        for library in found:
            try:
                self.running[library.name] = Ranks(library, ranks)
            except LibraryFailedError as error:
                self.failed[library.name] = str(error)

    def versions(self) -> dict[str, str]:
        return {name: ranks.version for name, ranks in self.running.items()}

    def end(self) -> None:
        for ranks in self.running.values():
            ranks.end()

    def _ask(self, name: str, *words: object) -> dict[str, Any] | None:
        """None if the library fails now or has failed before."""
        if name not in self.running:
            return None
        try:
            return self.running[name].ask(*words)
        except LibraryFailedError as error:
            self.failed[name] = str(error)
            self.running.pop(name).end()
            return None

    def measure(self, cell: Cell, limits: Limits) -> dict[str, Any]:
        """A line of the results."""
        elements = element_count(cell.operation, cell.dtype, self.ranks, cell.size)
        ready = {}
        for name in list(self.running):
            if (bare := self._ask(name, "exchange")) and (made := self._ask(name, "cell", cell.operation, elements)):
                self.exchanges.append(bare["exchange_ns"])
                ready[name] = made
        crowded = self.ranks > len(processors())
        bursts = {name: program_burst(made["call_ns"] * 1e-9, crowded) for name, made in ready.items()}
        samples: dict[str, list[list[list[int]]]] = {name: [] for name in ready}
        begin, rounds, names = time.monotonic(), 0, list(ready)
        while not enough(rounds, time.monotonic() - begin, limits):
            halves: dict[str, list[list[int]]] = {name: [] for name in names}
            for index in round_order(len(names), rounds):
                burst = bursts[names[index]]
                if taken := self._ask(names[index], "calls", burst.warm, burst.timed):
                    halves[names[index]].append(taken["samples"])
            for name, both in halves.items():
                if len(both) == 2:
                    samples[name].append(both)
            rounds += 1
        peers = {  # ratios are paired by rounds: who failed in one of them has none here
            name: {"wrong": made["wrong"], "samples": samples[name]}
            for name, made in ready.items()
            if name in self.running
        }
        size = actual_size(cell.operation, cell.dtype, self.ranks, cell.size)
        return {
            **asdict(cell),
            "level": "c",
            "ranks": self.ranks,
            "size_wanted": cell.size,
            "size": size,
            "peers": peers,
        }


def collect(plan: Plan, progress: Callable[[str, int], None]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All C cells, and facts about the libraries. progress(title, cells done) is called before each cell."""
    found, missing = libraries()
    facts: dict[str, Any] = {"missing": missing, "versions": {}, "failed": {}, "exchange": {}}
    facts["commands"] = {library.name: library.shown(plan.ranks[0]) for library in found}
    cells: list[dict[str, Any]] = []
    for ranks in plan.ranks:
        progress(f"{ranks} ranks: C level, programs start", len(cells))
        level = Level(ranks, found)
        facts["versions"].update(level.versions())
        begin = time.monotonic()
        try:
            for cell in plan.c_cells(ranks):
                progress(cell.title(ranks), len(cells))
                late = time.monotonic() - begin > plan.c_seconds
                cells.append(level.measure(cell, Limits(0.0, FEWEST_ROUNDS, FEWEST_ROUNDS) if late else plan.limits))
        finally:
            level.end()
        facts["failed"].update({f"{name}, {ranks} ranks": why for name, why in level.failed.items()})
        if level.exchanges:
            facts["exchange"][str(ranks)] = statistics.median(level.exchanges) * 1e-9
    return cells, facts


def turns(plan: Plan) -> int:
    """How often progress will count."""
    return sum(len(plan.c_cells(ranks)) for ranks in plan.ranks)
