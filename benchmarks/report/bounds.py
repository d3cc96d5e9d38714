"""What no backend can go below, measured in the same run: flags must cross, and the least of the data be copied."""

from dataclasses import dataclass

from benchmarks import intervals
from benchmarks.operations import OPERATIONS
from benchmarks.peers import EXCHANGE, FLOOR
from benchmarks.report import tables, words
from benchmarks.results import Line, Results


@dataclass(frozen=True)
class Bound:
    seconds: float
    what: str  # takes so long

    def __str__(self) -> str:
        return f"{self.what} alone: {words.time(self.seconds)}"


def least(results: Results, line: Line, staged: bool = True) -> Bound | None:
    """None where the run has measured none of it. staged=False: an all_reduce of tensors read where they lie."""
    call, moving = _call(results, line), _moving(results, line, staged)
    if call is None or moving is None:
        return call or moving
    return Bound(call.seconds + moving.seconds, f"{call.what} and {moving.what}")


def _call(results: Results, line: Line) -> Bound | None:
    """A call with next to no data."""
    if line.level == "c":
        exchange = results.values.get("c_level", {}).get("exchange", {}).get(str(line.ranks))
        return None if exchange is None else Bound(exchange, "an exchange of flags")
    for peer, what in ((EXCHANGE, "a backend that only exchanges flags"), (FLOOR, "the floor")):
        if peer in line.peers:
            return Bound(intervals.summary(line.samples(peer)).median, what)
    return None


def _moving(results: Results, line: Line, staged: bool) -> Bound | None:
    """The data, between private memories; staged=False: between memories that all may read and one may write."""
    if line.operation not in OPERATIONS:
        return None
    copying = tables.copying_alone(results, line)
    if not staged:
        what = "memcpy of what a rank must read and write that writes no other rank's memory"
        return None if copying is None else Bound(copying * _read_in_place(line.ranks), what)
    crossing = _handed_over(results, line) if line.operation == "all_reduce" else None
    ways = ((copying, "memcpy"), (crossing, "handing the data over in shared memory"))
    known = [Bound(seconds, what) for seconds, what in ways if seconds is not None]
    return max(known, key=lambda bound: bound.seconds, default=None)


def _read_in_place(ranks: int) -> float:
    """Bytes through memory over those of a copy, of an all_reduce of S bytes from where the tensors lie.

    A rank reads its slice of S / n in n tensors, writes it to its own, reads the other n - 1 and writes those.
    """
    return (ranks + 1 + 2 * (ranks - 1)) / (2 * ranks)


def _handed_over(results: Results, line: Line) -> float | None:
    """Seconds of an all_reduce of S bytes; None where no tensor as small was measured.

    A rank hands over at least S: its part of every other rank's slice, and its own slice when that is reduced.
    It takes 2 S (n - 1) / n: everybody's part of its slice, and all other slices. At the rate of the largest tensor
    that was measured before or after the run and is no larger; ranks that share a processor take turns.
    """
    outward = 2 * (line.ranks - 1) / line.ranks
    found = [tensor for moment in ("before", "after") for tensor in results.values[moment].get("handover", [])]
    nearest = max((tensor["bytes"] for tensor in found if tensor["bytes"] <= line.size), default=0)
    fitting = [tensor for tensor in found if tensor["bytes"] == nearest]
    costs = [(tensor["in_ns"] + outward * tensor["out_ns"]) / tensor["bytes"] for tensor in fitting]
    turns = max(1.0, line.ranks / results.cores)
    return min(costs) * line.size * turns * 1e-9 if costs else None
