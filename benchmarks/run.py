"""The command `run`: measures a plan from machine facts to results file."""

import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import c_level, launch, machine
from benchmarks.plan import Plan
from benchmarks.results import FORMAT, Results


def run(plan: Plan, out: Path, console: Console) -> Path:
    """Measures, saves, returns the file. What failed is in the file and on the console."""
    out.mkdir(parents=True, exist_ok=True)  # refused now, not after ten minutes
    began, meter = time.monotonic(), machine.Meter()
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
        task = progress.add_task("memory speed", total=total + c_level.turns(plan))
        values["ceiling"] = [machine.ceiling(ranks) for ranks in plan.ranks]
        cells, values["python_level"] = launch.collect(
            plan, lambda title, done: progress.update(task, description=title, completed=done)
        )
        if plan.c_level:
            more, values["c_level"] = c_level.collect(
                plan, lambda title, done: progress.update(task, description=title, completed=total + done)
            )
            cells += more
        progress.update(task, completed=total + c_level.turns(plan))
    values["cells"] = cells
    values["after"] = _now()
    values["cores_taken"] = meter.read()
    values["seconds"] = round(time.monotonic() - began, 1)
    _warn(values, console)
    return Results(values).save(out)


def _now() -> dict[str, Any]:
    """What can change within minutes in a virtual machine."""
    return {
        "load_average": os.getloadavg()[0],
        "placement": machine.placement(),
        "handover": machine.handover(),
        "sums": machine.sums(),
    }


def _warn(values: dict[str, Any], console: Console) -> None:
    for level in ("python_level", "c_level"):
        for name, why in values.get(level, {}).get("missing", {}).items():
            console.print(f"without {name}: {why}", style="yellow", markup=False)
        for name, why in values.get(level, {}).get("failed", {}).items():
            console.print(f"{name} failed: {why}", style="red", markup=False)
    if left_out := values["python_level"]["left_out"]:
        console.print(f"time was up: {len(left_out)} cells left out", style="yellow")
    taken = values["cores_taken"]
    if Results(values).busy:
        said = f"other programs took {taken['others']:.2f} cores, the hypervisor {taken['stolen']:.2f}: expect noise"
        console.print(said, style="yellow")
