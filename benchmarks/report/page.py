"""docs/performance.md."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.operations import DEFINITIONS
from benchmarks.report import aims, headline, words
from benchmarks.report import plots as details
from benchmarks.report.tables import ceiling_table, tables
from benchmarks.results import Results

METHOD = """\
- One process per rank; all backends live in the same processes and take turns. A round takes every backend twice, in a
  random order and then in its mirror image (ABBA for two), so what drifts hits both sides of a ratio alike.
- Before each call the input is written anew by its rank, and the ranks meet at a barrier in shared memory that
  belongs to no backend. The clock runs from there to the return of the call (for asynchronous ones, of the wait). Then
  they meet again.
- A time is the maximum over ranks of each call; the tables show medians. Ratios are paired: median over rounds of (time
  of the peer / time of customccl), with its 95 % bootstrap interval in brackets. Above 1, customccl is faster. Cells
  that begin late at the C level, and the slowest ones, have three or four rounds: their interval is all that was seen,
  and holds the true median three times in four (with three), not nineteen in twenty.
- A/A gate: each backend is compared with itself, first half of each round against the second. Where that is not 1
  within 5 % (10 % where ranks outnumber cores), nor 1 in its interval, the tables say "machine too noisy". For
  customccl and the floor that interval must be narrow as well; what jitters by itself shows it in the interval of its
  ratio. A target is judged through the gate too, unless its answer is the same whatever the noise ("noisy").
- Python level: the thread that calls has a processor of its own where there is one for every rank; threads of the
  backends go where they like. Without that, one backend's wake-ups put both ranks on one processor for milliseconds,
  and whoever comes next pays. Steps (end to end) run as the system places them.
- Results of operations are checked at each size against a formula (Python: before and after timing); a wrong one has
  no numbers. Messages are checked once; steps, groups and the Communicator are timed only. No sample is dropped,
  nothing is the best of several runs.
- The floor is a c10d backend that does nothing but return a finished Work, as torch's CPU backends return one: what
  Python and c10d cost. A call that is not asynchronous need not return one, and then Python neither wraps it nor waits
  for it; customccl returns none, so it may take less than the floor. "Floor without a Work" is the floor of that.
  "Exchange" returns none either and has one flag go from each rank to each other: what any operation costs that the
  ranks take part in together. (In runs before 27 November 2026 customccl and "exchange" returned one, too.)
- C level: one C program compiled for each library. All run all the time, asleep but for the one whose turn it is; a
  turn is up to 2 ms of calls of one operation (20 ms where ranks share processors), after a quarter as many untimed
  ones, or one call of a long one. Rounds, ratios and the A/A gate as above. The program pins ranks to the same cores
  for all libraries where every rank can have one. The launchers' own pinning is off, and Intel MPI is told to use
  shared memory; all else is as each library ships.
- "of memcpy": time in which a rank could copy the bytes it must copy (reduce_scatter: read) at least, over our time.
  `dist` calls of 16 MiB and more: the ranks copy so much all at once, by turns with the peers, by the faster of plain
  and non-temporal stores. The rest: at the speed of concurrent memcpys measured before the run. It exceeds 100 % where
  caches help more than they help the copies."""

OVER_MACHINES = """\
One run each. Virtual processors move between near and far cores, and neighbours use the same memory, so rows close to
their target change from run to run; what was measured, and why something is out of reach, stands in each machine's
section. "(n too noisy)": so many cells of the row are not known. "?": not in that run, or the machine was too noisy."""

UNDER_TARGETS = """\
<sub>Out of reach: what no backend can spare, measured in the same run, takes longer than the target, even less its
error where the A/A gate does not let flags or copies pass. A backend that only exchanges flags has every rank write one
word to each other rank and wait for theirs; it checks, copies and returns nothing. Handing over: each of two processes
copies from its memory into shared memory, and what the other put there over it, in pieces, in the fastest of 18 to 72
ways (size of the pieces, window, sides, kind of store, order of reading); or has the kernel copy it from the other's
memory (process_vm_readv), if that is faster. memcpy: each rank copies as many bytes as it must at least; no proof where
two ranks hand over in less what they reduce. Summing the tensors where they lie: each of two processes reads its half
of both, in shared memory, and writes the sums into both, in the fastest of 8 ways (kind of store, order, size of the
pages). (noisy): the A/A gate would not let a number pass, and no number within its error changes the answer.
C level, where it stands beside the floor: what a c10d backend takes more than the floor that only hands the tensor's
address to the C interface, in turns with the other backends; the C tables repeat one call, so its data and code stay
in the caches.</sub>"""
UNDER_TABLES = """\
<sub>p50, p5, p95, p99 of the time t of one call, the maximum over ranks; algbw = S / t; busbw = algbw x factor;
GB = 1e9 bytes. S and factor of each operation: [definitions](#definitions). Ratios: time of the peer / time of
customccl, 95 % interval.</sub>"""

RERUN = """\
```
make bench          # about 10 minutes; fetches the peers first
make bench-quick    # about 2 minutes
make bench-big      # 2, 4, 8 and 16 ranks on a machine with that many cores, under 9 minutes; report in results/big
python -m benchmarks run --ops all_reduce --sizes 8,64K,16M --ranks 2    # and so on: --help
python -m benchmarks report results/SOME.json --out somewhere/page.md
python -m benchmarks keep results/SOME.json    # of another machine: adds it to this page
python -m benchmarks compare OLD NEW    # two commits, source trees or results files, by paired ratio
```

Raw samples go to `results/`; those behind this page lie, packed, in [results](results)."""

BUSY = """\
**Other programs kept {cores} of {all} cores busy during this run.** Times are far above what the machine can do, and
ratios are those of ranks that wait for time slices. It proves that the benchmark runs; it is no measurement."""


def write(all_results: Sequence[Results], path: Path) -> None:
    """The page and its plots (in the folder `plots` beside it). Quick runs but the first are not judged."""
    plots = path.parent / "plots"
    lines = ["# Performance", "", "Made from raw samples by `python -m benchmarks report`; do not edit.", ""]
    targets = [
        list(aims.rows(results)) if number == 0 or results.preset != "quick" else []
        for number, results in enumerate(all_results)
    ]
    judged = zip(all_results, targets, strict=True)
    lines += _overview([(results, rows) for results, rows in judged if rows and results.preset != "big"])
    for number, results in enumerate(all_results):
        same = sum(other.name == results.name for other in all_results[:number])
        folder = plots / (f"{results.name}-{same + 1}" if same else results.name)
        figures = [headline.draw(results, folder if number else plots), details.draw(results, folder)]
        lines += _section(results, [_images(drawn, path.parent) for drawn in figures], targets[number])
    lines += ["## Definitions", "", DEFINITIONS, "", "## Method", "", METHOD, "", "## Measure it yourself", "", RERUN]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def _images(drawn: Iterable[tuple[str, Path]], beside: Path) -> list[str]:
    return [line for title, plot in drawn for line in (f"![{title}]({os.path.relpath(plot, beside)})", "")]


def _title(results: Results) -> str:
    machine = results.values["machine"]
    return f"{machine['processor']}, {machine['cores_usable']} cores, {machine['date'][:10]}"


def _overview(judged: Sequence[tuple[Results, list[list[str]]]]) -> Iterator[str]:
    """What was reached where, if there is more than one machine."""
    if len(judged) < 2:
        return
    rows = [[*same[0][:2], *(row[-1] for row in same)] for same in zip(*(rows for _, rows in judged), strict=True)]
    yield from ["## Targets, machine by machine", "", OVER_MACHINES, ""]
    yield from [*words.table(["what", "target", *(_title(results) for results, _ in judged)], rows), ""]


def _section(results: Results, figures: Sequence[list[str]], targets: list[list[str]]) -> Iterator[str]:
    yield from [f"## {_title(results)}", ""]
    if results.busy:
        cores = f"{sum(results.values['cores_taken'].values()):.1f}"
        yield from [BUSY.format(cores=cores, all=results.cores), ""]
    yield from _facts(results.values)
    yield from ["", *figures[0]]
    if targets:
        yield from ["### Targets", "", *words.table(["what", "target", "measured", ""], targets)]
        yield from ["", UNDER_TARGETS, ""]
    yield from ["### Plots", "", *figures[1]]
    for table in tables(results):
        yield from [f"### {table.title}", "", *table.lines, "", UNDER_TABLES, ""]
    yield from ["### Memory speed in the same run", "", *ceiling_table(results), ""]


def _facts(values: dict[str, Any]) -> Iterator[str]:
    machine = values["machine"]
    yield f"- Command: `{values['command']}`, {machine['date']}, {values['seconds']:.0f} s, commit {machine['commit']}."
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield f"- Versions: {versions}."
    kind = "a virtual machine" if machine["virtual"] else "no virtual machine"
    memory = f"{machine['memory_bytes'] / 2**30:.0f} GiB"
    yield f"- Machine: {kind}, {memory} of memory, governor {machine['governor']}; {'; '.join(machine['caches'])}."
    for when in ("before", "after"):
        state = values[when]
        pairs = [f"{p['processors']} {p['round_trip_ns']:.0f} ns, {p['distance']}" for p in state["placement"][:4]]
        more = len(state["placement"]) - 4
        pairs += [f"and {more} more pairs"] if more > 0 else [] if pairs else ["not measured, there is only one"]
        load = f"load average {state['load_average']:.1f}"
        yield f"- {when.title()} the run: {load}; round trip of a flag between processors {'; '.join(pairs)}."
    taken = values["cores_taken"]
    yield f"- During the run other programs took {taken['others']:.2f} cores, the hypervisor {taken['stolen']:.2f}."
    c_level = values.get("c_level", {})
    libraries = [f"{name} ({version})" for name, version in c_level.get("versions", {}).items()]
    if libraries:
        pinned = "ranks pinned alike, one per core, where there are enough cores"
        yield f"- C level: {'; '.join(libraries)}; each with its own defaults, {pinned}."
    settings = ", ".join(f"{name}={value}" for name, value in machine["settings"].items()) or "all defaults"
    yield f"- Settings of customccl: {settings}. Python ranks: one thread (OMP_NUM_THREADS=1)."
    if left_out := values["python_level"]["left_out"]:
        yield f"- Left out, because the time was up: {len(left_out)} cells, the first of them `{left_out[0]}`."
    for level in (values["python_level"], c_level):
        for kind in ("missing", "failed"):
            for name, why in level.get(kind, {}).items():
                yield f"- {kind.title()}: {name}: {' '.join(why.split())[:200]}"
