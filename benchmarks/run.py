"""The command `run`: measures a plan from machine facts to results file."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import launch, machine
from benchmarks.plan import Plan
from benchmarks.results import FORMAT, Results

Report = Callable[[str], None]


def run(plan: Plan, out: Path, console: Console) -> Path:
    """Measures, saves, returns the file. What failed is in the file and on the console."""
    began = time.monotonic()
    values: dict[str, Any] = {
        "format": FORMAT,
        "command": machine.command_line(),
        "plan": plan.as_dict(),
        "machine": machine.facts(),
        "before": _now(),
    }
    total = sum(len(plan.cells(ranks)) for ranks in plan.ranks)
    columns = TextColumn("{task.description:<58}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("memory speed", total=total)
        values["ceiling"] = [machine.ceiling(ranks) for ranks in plan.ranks]
        cells, facts = launch.collect(
            plan, lambda title, done: progress.update(task, description=title, completed=done)
        )
        progress.update(task, completed=len(cells))
        values |= {"cells": cells, "python_level": facts}
    values["after"] = _now()
    values["seconds"] = round(time.monotonic() - began, 1)
    _warn(values, console)
    return Results(values).save(out)


def _now() -> dict[str, Any]:
    """What can change within minutes in a virtual machine."""
    return {**machine.load(), "placement": machine.placement()}


def _warn(values: dict[str, Any], console: Console) -> None:
    for name, why in values["python_level"]["missing"].items():
        console.print(f"without {name}: {why}", style="yellow", markup=False)
    for ranks, why in values["python_level"]["failed"].items():
        console.print(f"{ranks} ranks failed: {why}", style="red", markup=False)
    busiest = max(values["before"]["load_average"], values["after"]["load_average"])
    allowed = max(values["plan"]["ranks"]) + 0.5
    if busiest > max(allowed, os.cpu_count() or 1):
        console.print(f"other programs are running (load {busiest:.1f}): expect noise", style="yellow")
