"""What no backend can go below, measured in the same run: flags must cross, and the least of the data be copied."""

from dataclasses import dataclass
from typing import Any

from benchmarks import intervals
from benchmarks.operations import OPERATIONS
from benchmarks.peers import COPY, EXCHANGE, FLOOR, NO_WORK
from benchmarks.report import tables, words
from benchmarks.results import Line, Results

HANDING_OVER = "handing the data over"
SUMMING = "summing the tensors where they lie"


@dataclass(frozen=True)
class Bound:
    seconds: float
    what: str  # takes so long

    def forbids(self, wanted: float, ours: float) -> bool:
        """Whether no backend can take `wanted` seconds, when ours takes `ours`: what ours beats is no bound."""
        return wanted < self.seconds <= ours

    def __str__(self) -> str:
        return f"{self.what} alone: {words.time(self.seconds)}"


def least(results: Results, line: Line, staged: bool = True) -> Bound | None:
    """None where the run has measured none of it. staged=False: tensors in shared memory."""
    call, moving = _call(results, line), _moving(results, line) if staged else _summing(results, line)
    if call is None or moving is None:
        return call or moving
    return Bound(call.seconds + moving.seconds, f"{call.what} and {moving.what}")


def _call(results: Results, line: Line) -> Bound | None:
    """A call with next to no data."""
    if line.level == "c":
        exchange = results.values.get("c_level", {}).get("exchange", {}).get(str(line.ranks))
        return None if exchange is None else Bound(exchange, "an exchange of flags")
    # Where no exchange is measured, the Work of the floor, which a backend can spare, is a thousandth or less.
    bare = ((EXCHANGE, "a backend that only exchanges flags"), (NO_WORK, f"the {NO_WORK}"), (FLOOR, "the floor"))
    for peer, what in bare:
        if peer in line.peers:
            return Bound(_surely(line, peer), what)
    return None


def _surely(line: Line, peer: str) -> float:
    """Seconds of a peer, less what it may be wrong by where the A/A gate does not let it pass."""
    return intervals.summary(line.samples(peer)).median / line.slack(peer)


def _moving(results: Results, line: Line) -> Bound | None:
    """The data, between private memories.

    A copy goes to memory that no other call touches. all_reduce writes over what is in caches and reduce_scatter less
    than it reads, so where two ranks have handed each other the data in less, the copy proves nothing.
    """
    if line.operation not in OPERATIONS:
        return None
    copying = _surely(line, COPY) if COPY in line.peers else tables.copying_alone(results, line)
    crossing = handed_over(results, line.operation, line.ranks, line.size)
    if crossing is not None and line.ranks == 2 and line.operation in ("all_reduce", "reduce_scatter"):
        copying = None
    ways = ((copying, "memcpy"), (crossing, HANDING_OVER))
    known = [Bound(seconds, what) for seconds, what in ways if seconds is not None]
    return max(known, key=lambda bound: bound.seconds, default=None)


def _around(results: Results, measure: str) -> list[dict[str, Any]]:
    """What the measure found before and after the run."""
    return [tensor for moment in ("before", "after") for tensor in results.values[moment].get(measure, [])]


def _summing(results: Results, line: Line) -> Bound | None:
    """An all_reduce of two ranks' tensors where they lie: in the fastest way before or after the run, of this size."""
    if line.operation != "all_reduce" or line.ranks != 2:
        return None
    took = [tensor["sum_ns"] * 1e-9 for tensor in _around(results, "sums") if tensor["bytes"] == line.size]
    return Bound(min(took), SUMMING) if took else None


def _given(operation: str, ranks: int) -> float:
    """The share of S that a rank hands to others: of all_reduce its part of their slices, and its own slice reduced."""
    return {"all_reduce": 1.0, "all_gather": 1 / ranks}.get(operation, (ranks - 1) / ranks)


def _taken(operation: str, ranks: int) -> float:
    """And takes from others: of all_reduce their parts of its slice, and their slices reduced."""
    return (2 if operation == "all_reduce" else 1) * (ranks - 1) / ranks


def handed_over(results: Results, operation: str, ranks: int, size: int) -> float | None:
    """Seconds in which what must cross crosses, in an operation in which every rank has something for every other one.

    None for others, and where no tensor as small was measured. Through shared memory, or read by the kernel in the
    other's memory, whichever is faster, at the rate of the largest tensor that was measured before or after the run and
    is no larger; ranks that share a processor take turns. (all_gather and all_to_all also copy a rank's own block; that
    is left out.)
    """
    if operation not in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        return None
    given, taken = _given(operation, ranks), _taken(operation, ranks)
    found = _around(results, "handover")
    nearest = max((tensor["bytes"] for tensor in found if tensor["bytes"] <= given * size), default=0)
    costs = []
    for tensor in found:
        if tensor["bytes"] != nearest:
            continue
        costs.append((given * tensor["in_ns"] + taken * tensor["out_ns"]) / nearest)
        if tensor.get("pull_ns"):
            costs.append(taken * tensor["pull_ns"] / nearest)
    return min(costs) * size * max(1.0, ranks / results.cores) * 1e-9 if costs else None
