"""The measured cells as tables: one per level, style, dtype and number of ranks."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import intervals, operations
from benchmarks.peers import BARE, COPY, EXCHANGE, FLOOR, NO_WORK, OURS, OURS_IN_C
from benchmarks.plan import C_STYLE, OWN, STEP
from benchmarks.report import words
from benchmarks.results import Line, Results, unique

TITLES = {
    "dist": "Python, `torch.distributed` calls",
    "direct": "Python, direct calls on the backend object",
    "async": "Python, `async_op=True` and `wait()`",
    "functional": "Python, functional ops (`torch.ops._c10d_functional`) and `wait_tensor`",
    C_STYLE: "C",
    OWN: "Python, messages, groups and the Communicator",
    STEP: "End to end",
}


@dataclass(frozen=True)
class Table:
    title: str
    lines: list[str]


def tables(results: Results) -> Iterator[Table]:
    kinds = unique((line.style, line.ranks, line.dtype) for line in results.lines())
    for style, ranks, dtype in sorted(kinds, key=lambda kind: list(TITLES).index(kind[0])):
        lines = list(results.lines(style=style, ranks=ranks, dtype=dtype))
        peers = unique(name for line in lines for name in line.peers if name not in (OURS, COPY))
        if not any(line.peers for line in lines):
            continue
        note = f" (oversubscribed: {results.cores} cores)" if lines[0].oversubscribed else ""
        title = f"{TITLES[style]}: {ranks} ranks{note}, {dtype}"
        make = {STEP: _step_table, OWN: _own_table}.get(style, _cell_table)
        yield Table(title, make(results, lines, peers))


def _cell_table(results: Results, lines: list[Line], peers: list[str]) -> list[str]:
    header = ["operation", "S", "customccl p50", "p5 - p95", "p99", "algbw", "busbw", "of memcpy", *map(_column, peers)]
    rows = [_row(results, line) + [against(line, peer) for peer in peers] for line in lines if line.peers]
    return words.table(header, rows)


def _step_table(results: Results, lines: list[Line], peers: list[str]) -> list[str]:
    header = ["step", "customccl p50", "p5 - p95", *map(_column, peers)]
    return words.table(
        header, [[line.operation, *_times(line)[:2]] + [against(line, peer) for peer in peers] for line in lines]
    )


def _own_table(results: Results, lines: list[Line], peers: list[str]) -> list[str]:
    header = ["call", "S", "customccl p50", "p5 - p95", "p99", *map(_column, peers)]
    sizes = [words.size(line.size) if line.size else "-" for line in lines]
    rows = [
        [line.operation, size, *_times(line), *(against(line, peer) for peer in peers)]
        for line, size in zip(lines, sizes, strict=True)
    ]
    return words.table(header, rows)


def _column(peer: str) -> str:
    over = {
        FLOOR: "over the floor",
        NO_WORK: f"over the {NO_WORK}",
        EXCHANGE: "over an exchange of flags",
        OURS_IN_C: "C interface, over it",
    }
    return over.get(peer, f"{peer}: time, ratio")


def _times(line: Line) -> list[str]:
    ours = line.summary(OURS)
    if ours is None:
        return [line.problem(OURS), "", ""]
    return [words.time(ours.median), f"{words.time(ours.p5)} - {words.time(ours.p95)}", words.time(ours.p99)]


def _row(results: Results, line: Line) -> list[str]:
    operation = operations.OPERATIONS[line.operation]
    ours = line.summary(OURS)
    row = [line.operation, words.size(line.size) if operation.has_bandwidth else "-", *_times(line)]
    if ours is None or not operation.has_bandwidth:
        return [*row, "", "", ""]
    alg = operations.algbw(line.size, ours.median)
    bus = operations.busbw(line.operation, line.ranks, line.size, ours.median)
    share = share_of_ceiling(results, line, ours.median)
    return [*row, words.three(alg), words.three(bus), f"{share:.0%}" if share else ""]


def against(line: Line, peer: str) -> str:
    """The peer's time and the ratio to ours; or why there is none. Of a bare one: how much longer we take."""
    theirs, ratio = line.summary(peer), line.ratio(peer, OURS)
    if theirs is None:
        return line.problem(peer).removeprefix("UnsupportedError: ")
    if ratio is None:
        return words.time(theirs.median)
    if not (line.quiet(peer) and line.quiet(OURS)):
        return words.NOISY
    if peer == OURS_IN_C:
        more = intervals.paired_difference(line.samples(OURS), line.samples(peer)).median
        return f"{words.time(theirs.median)} {words.more(more)}"
    if peer in BARE:
        return words.more(intervals.paired_difference(line.samples(OURS), line.samples(peer)).median)
    return f"{words.time(theirs.median)}, {words.ratio(ratio)}"


def share_of_ceiling(results: Results, line: Line, seconds: float) -> float | None:
    """What an ideal rank would need over our time."""
    ideal = copying_alone(results, line)
    return None if ideal is None else ideal / seconds


def copying_alone(results: Results, line: Line) -> float | None:
    """Seconds of an ideal rank, which copies the least it must at the speed of concurrent memcpys.

    The faster kind of copy, as measured in the same bursts, else at the measured size next below the bytes of a rank.
    None below 64 KiB: no limit there.
    """
    if COPY in line.peers:
        return intervals.summary(line.samples(COPY)).median
    moved = line.size * operations.OPERATIONS[line.operation].least_copy(line.ranks)
    rate = copy_rate(results, line.ranks, int(moved))
    return None if rate is None or line.size < 1 << 16 else moved / rate / 1e9


def copy_rate(results: Results, ranks: int, count: int) -> float | None:
    """GB/s per process of concurrent copies of `count` bytes, plain or streaming, whichever is faster."""
    for ceiling in results.values["ceiling"]:
        if ceiling["ranks"] == ranks:
            below = [copy for copy in ceiling["copies"] if copy["bytes"] <= max(count, ceiling["copies"][0]["bytes"])]
            return max(float(below[-1]["plain"]), float(below[-1]["streaming"] or 0.0))
    return None


def ceiling_table(results: Results) -> list[str]:
    rows = [
        [
            f"{ceiling['ranks']} processes",
            words.size(copy["bytes"]),
            words.three(copy["plain"]),
            words.three(copy["streaming"]) if copy["streaming"] else "-",
        ]
        for ceiling in results.values["ceiling"]
        for copy in ceiling["copies"]
    ]
    return words.table(["at once", "bytes", "memcpy, GB/s each", "non-temporal, GB/s each"], rows)
