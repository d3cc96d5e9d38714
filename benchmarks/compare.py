"""Old against new, by paired ratios: above 1, new is faster. Never absolute times of two runs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import intervals, launch, results
from benchmarks.intervals import Interval
from benchmarks.peers import OURS
from benchmarks.plan import Plan
from benchmarks.report import words
from benchmarks.sampling import Limits, round_order


@dataclass(frozen=True)
class Compared:
    """One cell. quiet: both sides passed the A/A gate."""

    title: str
    speed_up: Interval
    quiet: bool


def unlike(old: Path, new: Path) -> str:
    """What a reference cannot cancel; empty for two runs of machines of a kind."""
    kinds = [f"{run.values['machine']['processor']}, {run.cores} cores" for run in map(results.load, (old, new))]
    return (
        "" if kinds[0] == kinds[1] else f"two machines, {' and '.join(kinds)}: the ratios tell of both and of the code"
    )


def files(old: Path, new: Path, reference: str) -> Iterator[Compared]:
    """Cells that both results have; in each the time of `reference` cancels how fast the machine was. ValueError if
    there are none."""
    first, second = results.load(old), results.load(new)
    found = False
    key = ("level", "style", "operation", "dtype", "ranks", "size")
    for line in first.lines():
        other = second.line(**{name: line.values[name] for name in key})
        if other is None or any(peer not in side.peers for side in (line, other) for peer in (OURS, reference)):
            continue
        sides = [(side.samples(reference), side.samples(OURS)) for side in (line, other)]
        quiet = all(side.quiet(peer) for side in (line, other) for peer in (OURS, reference))
        found = True
        yield Compared(_title(line.values), intervals.ratio_of_ratios(sides[0], sides[1]), quiet)
    if not found:
        raise ValueError(f"no cell in which both results have {OURS} and {reference}")


def trees(
    old: Path, new: Path, operations: list[str], sizes: list[int], ranks: int, rounds: int, console: Console
) -> Iterator[Compared]:
    """Two source trees with built libraries, measured by this benchmark in turns of a few seconds, old new new old."""
    packages = [(tree / "torch_customccl").resolve() for tree in (old, new)]
    for package in packages:
        if not list(package.glob("_shim_*.so")):
            raise FileNotFoundError(f"{package} has no built library")
    limits = Limits(seconds=0.3, least=5, most=50)
    plan = Plan(
        "compare", [ranks], [OURS], limits, [ranks], operations, sizes, ["dist", "direct"], ["float32"], c_level=False
    )
    runs: list[list[list[list[dict[str, Any]]]]] = [[], []]  # [side][round][half] -> cells
    with Progress(console=console) as progress:
        task = progress.add_task("old and new in turns", total=4 * rounds)
        for number in range(rounds):
            for index in round_order(2, number):
                found = launch.events(plan, ranks, packages[index])
                cells = [event["cell"] for event in found if event["event"] == "cell"]
                if len(runs[index]) <= number:
                    runs[index].append([])
                runs[index][number].append(cells)
                progress.advance(task)
    for position, cell in enumerate(runs[0][0][0]):
        samples = [[[_calls(turn[position]) for turn in both] for both in side] for side in runs]
        quiet = all(intervals.quiet(side) for side in samples)
        yield Compared(_title(cell), intervals.paired_ratio(samples[0], samples[1]), quiet)


def _calls(cell: dict[str, Any]) -> list[float]:
    peer = cell["peers"][OURS]
    if peer.get("wrong") or "samples" not in peer:
        raise ValueError(f"{_title(cell)}: {peer.get('missing') or 'wrong results'}")
    return [call for both in peer["samples"] for half in both for call in half]


def _title(cell: dict[str, Any]) -> str:
    size = words.size(cell["size"])
    return f"{cell['ranks']} ranks, {cell['style']} {cell['operation']} {cell['dtype']} {size}"


def show(lines: Iterable[Compared], console: Console) -> None:
    table = Table("cell", "old / new", "verdict")
    for line in lines:
        verdict = line.speed_up.verdict if line.quiet else words.NOISY
        table.add_row(line.title, words.ratio(line.speed_up) if line.quiet else "", verdict)
    console.print(table)
