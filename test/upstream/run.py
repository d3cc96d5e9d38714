"""Runs torch's own distributed tests and writes docs/upstream-tests.md.

    python test/upstream/run.py --all                         both backends with 2, 3 and 4 ranks, then the table
    python test/upstream/run.py test_barrier ... --sizes 2    some tests, printed
    python test/upstream/run.py --all --resume                go on where a run was broken off
    python test/upstream/run.py --table                       the table from the outcomes on disk

With 4 ranks only the tests run that need so many. Exit code 1 if customccl does not pass what it ought to (what gloo
passes, and the CPU tests written for MPI) and torch_suite/reasons.py does not say why.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from torch_suite import table
from torch_suite.results import Run
from torch_suite.runner import Runner

ROOT = Path(__file__).resolve().parents[2]
NEEDS_FOUR = re.compile(r"world size of 4")  # in torch's reason for a skip
DOCUMENT = ROOT / "docs" / "upstream-tests.md"


def main() -> int:
    chosen = arguments()
    chosen.results.mkdir(parents=True, exist_ok=True)
    runs = [Run(backend, size, chosen.results) for backend in chosen.backends for size in chosen.sizes]
    if chosen.tests or chosen.all:
        for run in runs:
            execute(run, chosen.tests, chosen.resume)
    if chosen.all or chosen.table:
        DOCUMENT.write_text(table.document(runs))
        print(f"wrote {DOCUMENT.relative_to(ROOT)}")
    print(table.summary(runs))
    unexplained = table.unexplained(runs)
    for line in unexplained:
        print(line)
    return 1 if unexplained else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run torch's own distributed tests.")
    parser.add_argument("tests", nargs="*", help="names of tests; their outcomes replace those on disk")
    parser.add_argument("--all", action="store_true", help="run every test and write the table")
    parser.add_argument("--table", action="store_true", help="write the table from the outcomes on disk")
    parser.add_argument("--resume", action="store_true", help="keep the outcomes on disk, run what is missing")
    parser.add_argument("--backends", nargs="+", default=["customccl", "gloo"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[2, 3, 4])
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "upstream", help="folder of the outcomes")
    return parser.parse_args()


def execute(run: Run, tests: list[str], resume: bool) -> None:
    if not tests and not resume:
        run.path.unlink(missing_ok=True)
    with run.log.open("ab") as log, Runner(run.backend, run.size, log) as runner:
        have = run.outcomes() if resume else {}
        wanted = [name for name in tests or needed(run, runner.tests) if name not in have]
        for number, name in enumerate(wanted, 1):
            outcome = runner.run(name)
            run.add(outcome)
            about = "" if outcome.outcome == "passed" else f": {outcome.sentence}"
            print(f"{run.backend} {run.size} [{number}/{len(wanted)}] {name} {outcome.outcome}{about}", flush=True)


def needed(run: Run, tests: list[str]) -> list[str]:
    """All tests; with more than 3 ranks, those that 3 ranks were too few for."""
    if run.size <= 3:
        return tests
    smaller = Run(run.backend, 3, run.folder).outcomes()
    return [name for name in tests if name in smaller and NEEDS_FOUR.search(smaller[name].reason)]


if __name__ == "__main__":
    sys.exit(main())
