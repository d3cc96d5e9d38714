"""The kit judged by itself: every planted bug must get its verdict, the reference must pass, the useless must end."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from .cli import count
from .model import Tier
from .mutants import PLANTED
from .mutants.planted import Mutant
from .mutants.wrong_places import LEAK_PREFIX
from .plan import Selection
from .report import writer
from .report.result import Result
from .runner import Limits
from .session import Request, run

MODULE = "torch_customccl.conformance.mutants"


@dataclass(frozen=True)
class Caught:
    """What the kit said of one mutant."""

    mutant: Mutant
    verdicts: tuple[str, ...]
    messages: tuple[str, ...]
    seconds: float

    @property
    def right(self) -> bool:
        return self.mutant.verdict.value in self.verdicts


def judge_backend(
    name: str,
    cases: tuple[str, ...] = (),
    tier: Tier = Tier.STANDARD,
    rerun: bool = False,
    deadline_s: float = 10.0,
) -> Result:
    """Run some cases on a backend of this folder, quietly."""
    limits = Limits(lanes=2, rerun=rerun, deadline_s=deadline_s)
    request = Request(name, (MODULE,), Selection(tier, cases), limits)
    return run(request, Console(quiet=True))


def judge_mutant(mutant: Mutant) -> Caught:
    """The verdicts of the cases that look for this mutant's bug."""
    started = time.monotonic()
    result = judge_backend(mutant.name, mutant.cases, deadline_s=mutant.deadline_s)
    for planted in Path("/dev/shm").glob(f"{LEAK_PREFIX}*"):
        planted.unlink(missing_ok=True)
    verdicts = {case["verdict"] for case in result["cases"]}
    messages = {case.get("message", "") for case in result["cases"]}
    return Caught(mutant, tuple(sorted(verdicts)), tuple(sorted(messages)), time.monotonic() - started)


def score(mutants: tuple[Mutant, ...], console: Console) -> list[Caught]:
    """Judge all; one line each."""
    rows = []
    for mutant in mutants:
        row = judge_mutant(mutant)
        rows.append(row)
        console.print(
            f"{'caught' if row.right else 'MISSED'}  {mutant.name}: {', '.join(row.verdicts)} "
            f"(wanted {mutant.verdict.value}), {row.seconds:.1f} s",
            markup=False,
            soft_wrap=True,
        )
    return rows


def main(words: list[str], console: Console) -> int:
    """``selftest``: exit 0 if every mutant is caught."""
    parser = argparse.ArgumentParser(prog="python -m torch_customccl.conformance selftest")
    parser.add_argument("--quick", action="store_true", help="leave out mutants that cost hangs or gigabytes")
    parser.add_argument("--repeat", type=count, default=1, help="run so many times; verdicts must not change")
    parser.add_argument("--out", type=Path, help="write the score as JSON; runs then show it with --selftest-score")
    args = parser.parse_args(words)
    if args.out:
        writer.check_file(args.out)
    mutants = tuple(mutant for mutant in PLANTED if not (args.quick and mutant.slow))
    runs = [score(mutants, console) for _ in range(args.repeat)]
    same = all([row.verdicts for row in rows] == [row.verdicts for row in runs[0]] for rows in runs)
    caught = sum(row.right for row in runs[0])
    console.print(
        f"{caught} of {len(mutants)} planted bugs named with the right verdict; "
        f"{args.repeat} runs {'identical' if same else 'DIFFERENT'}",
        soft_wrap=True,
    )
    if args.out:
        rows = [
            {
                "name": row.mutant.name,
                "bug": row.mutant.bug,
                "wanted": row.mutant.verdict.value,
                "got": list(row.verdicts),
                "caught": row.right,
            }
            for row in runs[0]
        ]
        args.out.write_text(
            json.dumps(
                {"caught": caught, "total": len(mutants), "runs": args.repeat, "identical": same, "mutants": rows},
                indent=1,
            )
            + "\n"
        )
    return 0 if caught == len(mutants) and same else 1
