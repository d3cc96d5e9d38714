"""The command line: `python -m benchmarks install | run | report | keep | compare`."""

import argparse
import signal
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import plan, styles
from benchmarks.operations import ELEMENT_BYTES, OPERATIONS
from benchmarks.peers import PEERS
from benchmarks.plan import Plan
from benchmarks.sampling import FEWEST_ROUNDS, Limits
from benchmarks.shared_region import MAX_RANKS

if TYPE_CHECKING:
    from rich.console import Console

PAGE = Path("docs/performance.md")
LEAST_ROUNDS = 5  # to compare: of fewer, the whole range holds the true median less often
WORKLOADS = ("ddp_step", "ddp_step_staged", "fsdp2_step", "fsdp2_step_shared", "token_loop", "new_group")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures customccl against its peers.")
    commands = top.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="fetch and build the optional peers (DeepSpeed, Intel MPI, Open MPI, MPICH)")
    _add_run(commands.add_parser("run", help="measure; writes a results file with raw samples"))
    report = commands.add_parser("report", help="tables, plots and docs/performance.md from results files")
    report.add_argument("results", nargs="*", type=Path, help="default: the kept ones, in docs/results")
    report.add_argument("--out", type=Path, default=PAGE)
    keep = commands.add_parser("keep", help=f"keep a results file in docs/results, and write {PAGE}")
    keep.add_argument("results", type=Path)
    _add_compare(commands.add_parser("compare", help="old and new: results files, commits or source trees"))
    return top


def _add_compare(compare: argparse.ArgumentParser) -> None:
    compare.add_argument(
        "old", metavar="OLD", help="a results file; or a commit, or a source tree with built libraries"
    )
    compare.add_argument("new", metavar="NEW", help="the same")
    compare.add_argument("--reference", default="gloo", help="files: the peer whose time cancels the machine's")
    compare.add_argument("--ops", default="all_reduce,all_gather,broadcast,barrier", help="trees: what is measured")
    compare.add_argument("--sizes", default="8,4K,64K,1M,16M", help="trees")
    compare.add_argument("--ranks", type=int, default=2, help="trees")
    compare.add_argument(
        "--rounds", type=int, default=5, help="trees: how often each is started, times two; at least 5"
    )


def _add_run(run: argparse.ArgumentParser) -> None:
    preset = run.add_mutually_exclusive_group()
    preset.add_argument("--quick", action="store_true", help="about two minutes on two cores (default)")
    preset.add_argument("--full", action="store_true", help="about ten minutes on two cores")
    preset.add_argument("--big", action="store_true", help="2 to 16 ranks, under nine minutes on sixteen cores")
    run.add_argument("--ops", help=f"comma-separated; of {', '.join(OPERATIONS)}")
    run.add_argument("--sizes", help="S in bytes, comma-separated; 64K and 16M are understood")
    run.add_argument("--styles", help=f"comma-separated; of {', '.join(styles.STYLES)}")
    run.add_argument("--dtypes", help=f"comma-separated; of {', '.join(ELEMENT_BYTES)} (bfloat16: up to 13 ranks)")
    run.add_argument("--ranks", help="numbers of ranks, comma-separated (default: quick 2; full 2,4,8; big 2,4,8,16)")
    run.add_argument("--peers", default=";".join(PEERS), help=f"separated by semicolons; default {'; '.join(PEERS)}")
    run.add_argument("--workloads", help=f"comma-separated; of {', '.join(WORKLOADS)}")
    run.add_argument("--own", help=f"comma-separated; of {', '.join(plan.OWN_CALLS)}")
    run.add_argument("--no-c", action="store_true", help="leave out the C level")
    run.add_argument("--seconds", type=float, help="time per cell")
    run.add_argument("--rounds", type=int, help=f"this many rounds per cell; at least {FEWEST_ROUNDS}")
    run.add_argument("--out", type=Path, default=Path("results"), help="folder for the results file")
    run.add_argument("--report", action="store_true", help="keep the results in docs/results and write the report")


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The preset with what the command line changes. ValueError for an unknown name."""
    make, usual_ranks = plan.PRESETS["full" if arguments.full else "big" if arguments.big else "quick"]
    ranks = _numbers("--ranks", arguments.ranks or usual_ranks)
    if max(ranks) > MAX_RANKS:
        raise ValueError(f"--ranks: at most {MAX_RANKS}")
    made = make(ranks, _chosen(arguments.peers, [], PEERS, ";"))
    made.operations = _chosen(arguments.ops, made.operations, OPERATIONS)
    made.styles = _chosen(arguments.styles, made.styles, styles.STYLES)
    made.dtypes = _chosen(arguments.dtypes, made.dtypes, ELEMENT_BYTES)
    made.workloads = _chosen(arguments.workloads, made.workloads, WORKLOADS)
    made.own_calls = _chosen(arguments.own, made.own_calls, plan.OWN_CALLS)
    if arguments.sizes:
        made.sizes = made.c_sizes = made.c_coarse_sizes = _numbers("--sizes", arguments.sizes)
    if arguments.seconds:
        made.limits = replace(made.limits, seconds=arguments.seconds)
    if arguments.rounds is not None:
        if arguments.rounds < FEWEST_ROUNDS:
            raise ValueError(f"--rounds: at least {FEWEST_ROUNDS}; of fewer an interval says nothing")
        made.limits = Limits(made.limits.seconds, arguments.rounds, arguments.rounds)
    made.c_level = made.c_level and not arguments.no_c
    return made


def parse_size(word: str) -> int:
    """ "64K" -> 65536."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = word[-1:].upper()
    return int(word[:-1]) * units[unit] if unit in units else int(word)


def _numbers(option: str, text: str) -> list[int]:
    try:
        numbers = [parse_size(word) for word in text.split(",")]
    except ValueError:
        numbers = [0]
    if min(numbers) < 1:
        raise ValueError(f"{option} {text!r}: numbers from 1 on are needed, separated by commas")
    return numbers


def _chosen(text: str | None, preset: list[str], known: Collection[str], between: str = ",") -> list[str]:
    if text is None:
        return preset
    words = [word.strip() for word in text.split(between) if word.strip()]
    unknown = [word for word in words if word not in known]
    if unknown:
        raise ValueError(f"unknown: {', '.join(unknown)}; known: {f'{between} '.join(known)}")
    return words


def main(arguments: list[str] | None = None) -> int:
    from rich.console import Console

    chosen = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that ranks and temporary folders go, too
    try:
        _COMMANDS[chosen.command](chosen, Console())
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing is kept", file=sys.stderr)
        return 130
    return 0


def _install(chosen: argparse.Namespace, console: "Console") -> None:
    from benchmarks.install import install

    for name, state in install().items():
        console.print(f"{name}: {state}", markup=False)


def _run(chosen: argparse.Namespace, console: "Console") -> None:
    from benchmarks.run import run

    path = run(plan_of(chosen), chosen.out, console)
    console.print(f"raw samples: {path}", markup=False)
    if chosen.report:
        _keep_and_report(path, console)


def _keep(chosen: argparse.Namespace, console: "Console") -> None:
    _keep_and_report(chosen.results, console)


def _keep_and_report(path: Path, console: "Console") -> None:
    from benchmarks import results

    results.keep(path)
    _write_page([], PAGE, console)


def _report(chosen: argparse.Namespace, console: "Console") -> None:
    _write_page(chosen.results, chosen.out, console)


def _write_page(paths: list[Path], out: Path, console: "Console") -> None:
    from benchmarks import results
    from benchmarks.report import page

    page.write([results.load(path) for path in paths] if paths else results.kept(), out)
    console.print(f"written: {out}", markup=False)


def _compare(chosen: argparse.Namespace, console: "Console") -> None:
    from benchmarks import compare, trees

    old, new = chosen.old, chosen.new
    if Path(old).is_file() and Path(new).is_file():
        if unlike := compare.unlike(Path(old), Path(new)):
            console.print(unlike, style="yellow", markup=False)
        lines = compare.files(Path(old), Path(new), chosen.reference)
    else:
        if chosen.rounds < LEAST_ROUNDS:
            raise ValueError(f"--rounds: at least {LEAST_ROUNDS}; fewer give no 95 % interval")
        sizes, operations = _numbers("--sizes", chosen.sizes), _chosen(chosen.ops, [], OPERATIONS)
        sides = trees.built(old, console), trees.built(new, console)
        lines = compare.trees(*sides, operations, sizes, chosen.ranks, chosen.rounds, console)
    compare.show(lines, console)


_COMMANDS = {"install": _install, "run": _run, "report": _report, "keep": _keep, "compare": _compare}


if __name__ == "__main__":
    sys.exit(main())
