"""Kinds of targets: each makes a check that asks a results file."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import intervals
from benchmarks.intervals import Interval
from benchmarks.peers import FLOOR, NO_WORK, OURS, OURS_IN_C, OURS_SHARED, OURS_WIDE
from benchmarks.plan import OWN, STEP
from benchmarks.report import bounds, tables, words
from benchmarks.report.verdicts import (
    NOT_MEASURED,
    TOO_NOISY,
    Verdict,
    bounded,
    every,
    judged,
    lacking,
    median,
    usable,
)
from benchmarks.results import Line, Results

KIB, MIB = 1 << 10, 1 << 20
US, MS = 1e-6, 1e-3

Check = Callable[[Results], Verdict]


@dataclass(frozen=True)
class Target:
    what: str
    wanted: str
    check: Check


def over_floor(allowed: float, **cell: object) -> Check:
    """Ours takes at most `allowed` seconds longer than a backend that does nothing."""

    def check(results: Results) -> Verdict:
        line = results.line(level="python", ranks=2, dtype="float32", **cell)
        if problem := lacking(line, OURS, FLOOR):
            return problem
        assert line is not None
        more = intervals.paired_difference(line.samples(OURS), line.samples(FLOOR))
        floor, ours = median(line, FLOOR), median(line)
        text = f"floor {words.time(floor)} {words.more(more.median)} = {words.time(ours)}"
        if NO_WORK in line.peers:
            text += f"; {NO_WORK} {words.time(median(line, NO_WORK))}"
        error = sum((line.slack(peer) - 1) * seconds for peer, seconds in ((FLOOR, floor), (OURS, ours)))
        verdict = judged(text, more, error, lambda extra: extra <= allowed)
        return bounded(verdict, results, line, floor + allowed)

    return check


def at_most(limit: float, **cell: object) -> Check:
    def check(results: Results) -> Verdict:
        line = results.line(dtype="float32", **cell)
        if problem := lacking(line, OURS):
            return problem
        assert line is not None
        return bounded(_within(limit, line, median(line)), results, line, limit)

    return check


def _within(limit: float, line: Line, ours: float, more: str = "", way: str = OURS) -> Verdict:
    """`ours`: a median of `way` in the line or a share of it. `more`: what is told as well."""
    always, error = Interval(ours, ours, ours), (line.slack(way) - 1) * ours
    return judged(words.time(ours) + more, always, error, lambda time: time <= limit)


def faster(factor: float, peer: str, ours: str = OURS, **cell: object) -> Check:
    """The peer's time is at least `factor` times ours."""

    def check(results: Results) -> Verdict:
        line = results.line(**{"level": "python", "dtype": "float32", **cell})
        if problem := lacking(line, ours, peer):
            return problem
        assert line is not None
        ratio = intervals.paired_ratio(line.samples(peer), line.samples(ours))
        error = (line.slack(peer, ours) - 1) * ratio.median
        verdict = judged(words.ratio(ratio), ratio, error, lambda times: times >= factor)
        return bounded(verdict, results, line, median(line, peer) / factor, ours)

    return check


def _only(peer: str) -> Callable[[Line], list[str]]:
    """That peer, of lines that have it."""
    return lambda line: [peer] if peer in line.peers else []


def _not_slower(line: Line, peer: str) -> bool:
    return intervals.paired_ratio(line.samples(peer), line.samples(OURS)).verdict != "slower"


def never_slower(peer: str, ranks: int, least: int) -> Check:
    def check(results: Results) -> Verdict:
        lines = (line for line in results.lines(style="direct", ranks=ranks) if line.size >= least)
        return every(lines, _only(peer), _not_slower, 1)

    return check


def best_in_c(ranks: int) -> Check:
    """Every C cell is at least as fast as every MPI."""

    def check(results: Results) -> Verdict:
        lines = results.lines(level="c", ranks=ranks)
        return every(lines, lambda line: [name for name in line.peers if name != OURS], _not_slower, 1)

    return check


def fastest_mpi(factor: float, operation: str, ranks: int, size: int) -> Check:
    def check(results: Results) -> Verdict:
        line = results.line(level="c", ranks=ranks, operation=operation, size=size)
        if problem := lacking(line, OURS):
            return problem
        assert line is not None
        if len(line.peers) < 2:
            return NOT_MEASURED
        others = {name: line.summary(name) for name in line.peers if name != OURS}
        best = min(others, key=lambda name: others[name].median)  # type: ignore[union-attr]
        verdict = faster(factor, best, level="c", ranks=ranks, operation=operation, size=size)(results)
        return Verdict(f"{best} {verdict.measured}", verdict.met, verdict.forbidden)

    return check


def gloo_or_ceiling(operation: str) -> Check:
    """5x gloo, or 70 % of what copying alone would take, from 64 KiB to 64 MiB."""

    def check(results: Results) -> Verdict:
        def good(line: Line, peer: str) -> bool:
            share = tables.share_of_ceiling(results, line, median(line)) or 0.0
            return share >= 0.7 or intervals.paired_ratio(line.samples(peer), line.samples(OURS)).median >= 5

        def bound(line: Line, peer: str) -> str:
            """Where neither could be had."""
            ideal, least = tables.copying_alone(results, line), bounds.least(results, line)
            wanted = max(median(line, peer) / 5, (ideal or 0.0) / 0.7)
            told = least is not None and least.forbids(wanted, median(line))
            return f" (wanted {words.time(wanted)}, {least})" if told else ""

        lines = results.lines(style="dist", ranks=2, operation=operation, dtype="float32")
        large = (line for line in lines if line.size >= 64 * KIB)
        return every(large, _only("gloo"), good, 5, bound)

    return check


def c_level_plus_floor(size: int) -> Check:
    """dist.all_reduce costs the floor, 0.3 us and 1.05 times the C level.

    The C level as a c10d backend meets it that only calls the C interface: between other peers' calls and with the same
    caches. The C cells repeat one call, which is another thing.
    """

    def check(results: Results) -> Verdict:
        line = results.line(style="dist", operation="all_reduce", ranks=2, dtype="float32", size=size)
        if problem := usable(line, OURS, FLOOR, OURS_IN_C):
            return problem
        assert line is not None
        over = intervals.paired_difference(line.samples(OURS_IN_C), line.samples(FLOOR)).median
        more = intervals.paired_difference(line.samples(OURS), line.samples(OURS_IN_C))
        text = f"floor {words.time(median(line, FLOOR))} + C level {words.time(over)} {words.more(more.median)}"
        return Verdict(text, more.median <= 0.3 * US + 0.05 * over)

    return check


def one_way(limit: float, size: int) -> Check:
    """Half of the way there and back of a message."""

    def check(results: Results) -> Verdict:
        line = results.line(style=OWN, operation="message", ranks=2, size=size)
        if problem := lacking(line, OURS):
            return problem
        assert line is not None
        gloo = line.quiet_ratio("gloo", OURS)
        return _within(limit, line, median(line) / 2, f"; gloo {words.ratio(gloo)}" if gloo else "")

    return check


def over_c(allowed: float, size: int) -> Check:
    """Communicator.allreduce takes at most so much longer than the call of the C interface below it."""

    def check(results: Results) -> Verdict:
        cell = {"ranks": 2, "dtype": "float32", "size": size}
        python = results.line(style=OWN, operation="communicator", **cell)
        c = results.line(level="c", operation="all_reduce", **cell)
        if problem := usable(python, OURS) or usable(c, OURS):
            return problem
        assert python is not None and c is not None
        more = median(python) - median(c)
        return Verdict(f"C {words.time(median(c))} + {words.time(more)}", more <= allowed)

    return check


def as_fast_as_copies(results: Results) -> Verdict:
    line = results.line(style="direct", operation="all_reduce", ranks=2, dtype="float32", size=64 * MIB)
    rate = tables.copy_rate(results, 2, 64 * MIB)
    if problem := lacking(line, OURS_SHARED):
        return problem
    if line is None or rate is None:
        return NOT_MEASURED
    copy, ours = 64 * MIB / rate / 1e9, median(line, OURS_SHARED)
    verdict = _within(1.05 * copy, line, ours, f"; a copy takes {words.time(copy)}", OURS_SHARED)
    return bounded(verdict, results, line, 1.05 * copy, OURS_SHARED)


def low_precision(dtype: str) -> Check:
    """A type of two bytes takes no longer than float32 for as many elements."""

    def check(results: Results) -> Verdict:
        lines = results.lines(style="dist", operation="all_reduce", dtype=dtype, ranks=2)
        return every(lines, _only(OURS_WIDE), _not_slower, 1)

    return check


def footprint(figure: str, limit: float, show: Callable[[float], str]) -> Check:
    """A figure of footprint.py, with 2 ranks."""

    def check(results: Results) -> Verdict:
        value = results.values["python_level"]["footprint"].get("2", {}).get(figure)
        return NOT_MEASURED if value is None else Verdict(show(value), value < limit)

    return check


def communication(factor: float, step: str) -> Check:
    """What a step takes longer than with a backend that does nothing, gloo's over ours."""

    def check(results: Results) -> Verdict:
        line = results.line(style=STEP, operation=step)
        if problem := usable(line, OURS, FLOOR, "gloo"):
            return problem
        assert line is not None
        ours, gloo = (
            intervals.paired_difference(line.samples(peer), line.samples(FLOOR)).median for peer in (OURS, "gloo")
        )
        # A step cannot be faster than one that communicates nothing, by more than is to be shown.
        if -ours > gloo / factor:
            return TOO_NOISY
        return Verdict(f"{words.time(ours)}; gloo {words.time(gloo)}", ours <= 0 or gloo / ours >= factor)

    return check
