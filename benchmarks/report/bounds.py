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
    call = _call(results, line)
    copying = tables.copying_alone(results, line) if line.operation in OPERATIONS else None
    if copying is None:
        return call
    memcpy = "memcpy"
    if not staged:
        copying *= _read_in_place(line.ranks)
        memcpy += " of what a rank must read and write that writes no other rank's memory"
    return Bound(copying, memcpy) if call is None else Bound(call.seconds + copying, f"{call.what} and {memcpy}")


def _read_in_place(ranks: int) -> float:
    """Bytes through memory over those of a copy, of an all_reduce of S bytes from where the tensors lie.

    A rank reads its slice of S / n in n tensors, writes it to its own, reads the other n - 1 and writes those.
    """
    return (ranks + 1 + 2 * (ranks - 1)) / (2 * ranks)


def _call(results: Results, line: Line) -> Bound | None:
    """A call with next to no data."""
    if line.level == "c":
        exchange = results.values.get("c_level", {}).get("exchange", {}).get(str(line.ranks))
        return None if exchange is None else Bound(exchange, "an exchange of flags")
    for peer, what in ((EXCHANGE, "a backend that only exchanges flags"), (FLOOR, "the floor")):
        if peer in line.peers:
            return Bound(intervals.summary(line.samples(peer)).median, what)
    return None
