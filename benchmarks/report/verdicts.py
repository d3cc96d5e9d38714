"""Whether a target is met: numbers of a run against what was wanted, with noise and what no backend can spare."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks import intervals
from benchmarks.intervals import Interval
from benchmarks.peers import OUR_WAYS, OURS, OURS_SHARED
from benchmarks.report import bounds, words
from benchmarks.results import Line, Results


@dataclass(frozen=True)
class Verdict:
    """met: None where the run cannot tell. forbidden: missed, and no backend could have met it in this run. noisy: so
    many cells more that were too noisy to count."""

    measured: str
    met: bool | None
    forbidden: bool = False
    noisy: int = 0


NOT_MEASURED = Verdict("not in this run", None)
TOO_NOISY = Verdict(words.NOISY, None)


def lacking(line: Line | None, *peers: str) -> Verdict | None:
    """Why there is no number of one of these; None if all have some. What of ours has failed has not met its target."""
    if line is None:
        return NOT_MEASURED
    for peer in peers:
        if line.failed(peer):
            return Verdict(f"{peer}: {line.problem(peer)}", False if peer in OUR_WAYS else None)
        if peer not in line.peers:
            return NOT_MEASURED
    return None


def usable(line: Line | None, *peers: str) -> Verdict | None:
    """Why there is no number that the A/A gate lets pass; None if there is."""
    if problem := lacking(line, *peers):
        return problem
    assert line is not None
    return None if all(line.quiet(peer) for peer in peers) else TOO_NOISY


def median(line: Line, peer: str = OURS) -> float:
    return intervals.summary(line.samples(peer)).median


def bounded(verdict: Verdict, results: Results, line: Line, wanted: float, ours: str = OURS) -> Verdict:
    """Where no backend could take as little as `wanted`, the verdict says why."""
    bound = bounds.least(results, line, staged=ours != OURS_SHARED)
    if verdict.met is not False or bound is None or not bound.forbids(wanted, median(line, ours)):
        return verdict
    return Verdict(f"{verdict.measured}; wanted {words.time(wanted)}, {bound}", False, forbidden=True)


def judged(text: str, measured: Interval, error: float, reached: Callable[[float], bool]) -> Verdict:
    """By the median where the A/A gate lets it pass (error 0); else only if that error cannot change the answer."""
    if error == 0:
        return Verdict(text, reached(measured.median))
    answers = {reached(measured.low - error), reached(measured.high + error)}
    return Verdict(f"{text} (noisy)", answers.pop()) if len(answers) == 1 else TOO_NOISY


def every(
    lines: Iterator[Line],
    peers_of: Callable[[Line], list[str]],
    good: Callable[[Line, str], bool],
    surely: float,
    bound: Callable[[Line, str], str] = lambda line, peer: "",
) -> Verdict:
    """All lines against all their peers: how many are good, and which are not, where ours has failed above all. A noisy
    cell counts only if ours is `surely` times faster whatever the noise; with as many noisy ones as others there is no
    answer. `bound`: why no backend could make a cell good, or nothing."""
    bad: list[str] = []
    count, noisy, forbidden = 0, 0, True
    for line in lines:
        name = line.operation + (f" {words.size(line.size)}" if line.size else "")
        for peer in peers_of(line):
            if OURS not in line.peers:
                if line.failed(OURS):
                    bad.append(f"{name} {line.problem(OURS)}")
                    count, forbidden = count + 1, False
                break
            if (slack := line.slack(OURS, peer)) > 1:
                ratio = intervals.paired_ratio(line.samples(peer), line.samples(OURS))
                sure = ratio.low / slack > surely
                count, noisy = count + sure, noisy + (not sure)
                continue
            count += 1
            if not good(line, peer):
                ratio = intervals.paired_ratio(line.samples(peer), line.samples(OURS))
                why = bound(line, peer)
                forbidden = forbidden and why != ""
                bad.append(f"{name} {words.three(ratio.median)}x {peer}{why}")
    if count == 0:
        return TOO_NOISY if noisy else NOT_MEASURED
    text = f"{count - len(bad)} of {count} cells" + (f" ({noisy} too noisy)" if noisy else "")
    if bad:
        return Verdict(f"{text}: not {', '.join(bad)}", False, forbidden)
    return Verdict(text, True if noisy < count else None, noisy=noisy)
