"""Starts the ranks of a plan, shows progress, collects their cells; and ends all of them if one fails."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import install, native, shared_region
from benchmarks.peers import COPY, EXCHANGE, FLOOR, NO_WORK, OURS_IN_C
from benchmarks.plan import Plan

Event = dict[str, Any]


class RanksFailedError(RuntimeError):
    """Some rank ended badly; the text is the end of what it wrote."""


def environment(run: str, first: Path | None = None) -> dict[str, str]:
    """What every rank runs with; the same for all peers. `first` is where Python looks for packages before all else."""
    settings = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "BENCHMARKS_RUN": run}
    # What a training step frees and allocates again stays in the process: else chance decides whose gradients lie in
    # pages that the system has to clear first, up to 40 ms of a DDP step of 70.
    settings |= dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(1 << 40))
    paths = [*([str(first)] if first else []), str(native.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(paths)}


def events(plan: Plan, ranks: int, package: Path | None = None) -> Iterator[Event]:
    """Runs the plan with this many ranks; yields what rank 0 says. RanksFailedError if a rank fails.

    package: the torch_customccl that is measured, if not the one of this tree.
    """
    native.sync_library()  # built once, not by every rank
    run = str(os.getpid())
    descriptor = shared_region.create(ranks)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        processes = []
        (Path(folder) / "packages").mkdir()
        if package:
            (Path(folder) / "packages" / "torch_customccl").symlink_to(package)
        try:
            for rank in range(ranks):
                processes.append(_start(plan, descriptor, rank, ranks, Path(folder), run))
            yield from _listen(processes, Path(folder))
        finally:
            for process in processes:
                process.kill()
                process.wait()
            os.close(descriptor)
            _remove_deepspeed_segments(run)


def _start(plan: Plan, descriptor: int, rank: int, ranks: int, folder: Path, run: str) -> "subprocess.Popen[str]":
    arguments = [json.dumps(plan.as_dict()), str(descriptor), str(rank), str(ranks), str(folder / "store")]
    with open(folder / f"rank{rank}", "w") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.rank", *arguments],
            stdout=subprocess.PIPE if rank == 0 else errors,
            stderr=errors,
            text=True,
            pass_fds=[descriptor],
            env=environment(run, folder / "packages"),
        )


def _listen(processes: "list[subprocess.Popen[str]]", folder: Path) -> Iterator[Event]:
    assert processes[0].stdout is not None
    ended = False
    for line in processes[0].stdout:  # ends when rank 0 ends; its waits are limited, so it does
        if not line.startswith('{"event"'):
            continue  # libraries talk too
        event = json.loads(line)
        ended = event["event"] == "end"
        yield event
    if not ended:
        texts = [path.read_text().strip() for path in sorted(folder.glob("rank*"))]
        raise RanksFailedError("\n".join(text[-2000:] for text in texts if text))


def _remove_deepspeed_segments(run: str) -> None:
    """It leaves its named segments behind. Only those of this run are taken away."""
    for path in Path("/dev/shm").glob(f"deepspeed_*_{run}_*"):
        path.unlink(missing_ok=True)


def prepare(peers: Sequence[str]) -> dict[str, str]:
    """Builds what ranks will load; those that cannot be built, with the reason."""
    missing = {}
    for name, build in _BUILDS.items():
        if name in peers:
            try:
                build()
            except Exception as error:
                missing[name] = str(error).strip() or type(error).__name__
    return missing


_BUILDS = {
    **dict.fromkeys((FLOOR, NO_WORK, EXCHANGE, OURS_IN_C), native.load_noop),
    COPY: native.sync_library,
    "deepspeed": install.load_deepspeed,
}


def collect(plan: Plan, progress: Callable[[str, int], None]) -> tuple[list[Event], dict[str, Any]]:
    """All cells of all numbers of ranks, and facts about the peers. Before each cell: progress(title, cells done)."""
    cells: list[Event] = []
    facts: dict[str, Any] = {"missing": prepare(plan.peers), "footprint": {}, "failed": {}, "left_out": []}
    plan = replace(plan, peers=[name for name in plan.peers if name not in facts["missing"]])
    done = 0
    for ranks in plan.ranks:
        try:
            for event in events(plan, ranks):
                if event["event"] == "peers":
                    facts["missing"].update(event["missing"])
                elif event["event"] == "footprint":
                    facts["footprint"][str(ranks)] = event["figures"]
                elif event["event"] == "left_out":
                    facts["left_out"].append(event["title"])
                elif event["event"] == "begin":
                    progress(event["title"], done)
                elif event["event"] == "cell":
                    cells.append(event["cell"])
                    done += 1
        except RanksFailedError as error:
            facts["failed"][f"{ranks} ranks"] = str(error)
    return cells, facts
