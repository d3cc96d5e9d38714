"""The C level: our C interface against the MPIs, one C program compiled for each.

A library needs processes of its own, so turns are whole runs of the program, a few seconds each, in the mirrored random
order of sampling.py. A ratio pairs the medians of two libraries in one round.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import debian, install, machine, native
from benchmarks.operations import actual_size, element_count
from benchmarks.peers import OURS
from benchmarks.plan import Cell, Plan
from benchmarks.sampling import round_order

Greeting = dict[str, Any]  # the library's version, and nanoseconds of a bare exchange of flags
Cells = dict[tuple[str, int], dict[str, Any]]  # (operation, elements) -> what the program printed
Runs = dict[str, list[list[Cells]]]  # library -> [round][half]
RUN_SECONDS = 40
REGION_BYTES = 1 << 20


class LibraryFailedError(RuntimeError):
    """A run of the program ended badly; the text is the end of what it wrote."""


@dataclass
class Library:
    """A library, its compiled program, and what starts its ranks; with an empty `launcher`, we do, with a token."""

    name: str
    program: Path
    launcher: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, ranks: int) -> list[str]:
        return [*self.launcher, "-n", str(ranks), str(self.program)] if self.launcher else [str(self.program)]


def libraries() -> tuple[list[Library], dict[str, str]]:
    """Those that are here, and why the others are not."""
    found, missing = [], {}
    for name, make in _MAKERS.items():
        try:
            found.append(make())
        except subprocess.CalledProcessError as error:
            missing[name] = (error.stderr or str(error)).strip().splitlines()[-1]
        except FileNotFoundError as error:
            missing[name] = str(error)
    return found, missing


def _customccl() -> Library:
    folder = native.ROOT / "torch_customccl"
    flags = [f"-I{native.C_INTERFACE.parent}", f"-L{folder}", "-lcustomccl", f"-Wl,-rpath,{folder}"]
    return Library(OURS, native.build_c("c_customccl", ["collectives.c", "peer_customccl.c"], flags), [])


def _debian(name: str, *options: str) -> Callable[[], Library]:
    def make() -> Library:
        mpi = debian.find(name)
        program = native.build_c(f"c_{name}", ["collectives.c", "peer_mpi.c"], mpi.flags, mpi.compiler)
        return Library(debian.TITLES[name], program, [str(mpi.launcher), *options], mpi.environment)

    return make


def _intel() -> Library:
    folder = install.intel_mpi()
    flags = [f"-I{folder / 'include'}", f"-L{folder / 'lib'}", "-lmpi", f"-Wl,-rpath,{folder / 'lib'}"]
    program = native.build_c("c_intel", ["collectives.c", "peer_mpi.c"], flags)
    libraries = os.pathsep.join([str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    settings = {"I_MPI_ROOT": str(folder), "I_MPI_FABRICS": "shm", "I_MPI_PIN": "off", "LD_LIBRARY_PATH": libraries}
    return Library("Intel MPI", program, [str(folder / "bin" / "mpiexec.hydra")], settings)


_MAKERS: dict[str, Callable[[], Library]] = {
    OURS: _customccl,
    "Intel MPI": _intel,
    "Open MPI": _debian("openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
    "MPICH": _debian("mpich"),
}


def run_once(library: Library, ranks: int, cells: Sequence[Cell], seconds: float) -> tuple[Greeting, Cells]:
    """One turn: what the program says first, and what it measured. LibraryFailedError if its ranks failed."""
    wanted = [f"{cell.operation}:{element_count(cell.operation, cell.dtype, ranks, cell.size)}" for cell in cells]
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        region = Path(folder) / "region"
        region.write_bytes(bytes(REGION_BYTES))
        arguments = [*library.command(ranks), str(region), str(seconds), *wanted]
        processes = _start(library, arguments, ranks, Path(folder))
        try:
            output = processes[0].communicate(timeout=RUN_SECONDS)[0]
            codes = [process.wait(timeout=10) for process in processes]
        except subprocess.TimeoutExpired:
            raise LibraryFailedError(f"not done after {RUN_SECONDS} s") from None
        finally:
            _end(processes)
        if any(codes):
            raise LibraryFailedError((Path(folder) / "errors").read_text().strip()[-500:])
    lines = [json.loads(line, strict=False) for line in output.splitlines() if line.startswith("{")]
    return lines[0], {(line["operation"], line["elements"]): line for line in lines[1:]}


def _start(library: Library, arguments: list[str], ranks: int, folder: Path) -> "list[subprocess.Popen[str]]":
    environment = {**os.environ, **library.environment}
    if ranks <= len(os.sched_getaffinity(0)):
        environment["BENCHMARKS_PROCESSORS"] = " ".join(map(str, machine.processors()))
    own: list[dict[str, str]] = [{}]
    if not library.launcher:
        made = subprocess.run([library.program, "--token"], capture_output=True, text=True, check=True)
        token, count = made.stdout.strip(), str(ranks)
        own = [
            {"BENCHMARKS_TOKEN": token, "BENCHMARKS_RANK": str(rank), "BENCHMARKS_RANKS": count}
            for rank in range(ranks)
        ]
    with open(folder / "errors", "a") as errors:
        return [
            subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=errors, text=True, env={**environment, **more}, cwd=folder
            )
            for more in own
        ]


def _end(processes: "list[subprocess.Popen[str]]") -> None:
    """A launcher takes its ranks with it when it is asked to end."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def collect(plan: Plan, progress: Callable[[str, int], None]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All C cells, and facts about the libraries. progress(title, turns done) is called before each turn."""
    found, missing = libraries()
    facts: dict[str, Any] = {"missing": missing, "versions": {}, "failed": {}, "exchange": {}}
    facts["commands"] = {library.name: " ".join(map(_shown, library.command(plan.ranks[0]))) for library in found}
    cells = []
    for index, ranks in enumerate(plan.ranks):
        runs = _rounds(plan, ranks, found, facts, partial(_shifted, progress, index * plan.c_rounds * 2 * len(found)))
        cells += [_cell(cell, ranks, runs) for cell in plan.c_cells(ranks)]
    return cells, facts


def _rounds(
    plan: Plan, ranks: int, found: list[Library], facts: dict[str, Any], progress: Callable[[str, int], None]
) -> Runs:
    """Until the rounds or the time are up. A library that fails is left out from then on, with what it had measured."""
    runs: Runs = {library.name: [] for library in found}
    exchanges = []
    begin = time.monotonic()
    for number in range(plan.c_rounds):
        if number and time.monotonic() - begin > plan.c_budget:
            break
        for turn, library in enumerate(found[index] for index in round_order(len(found), number)):
            progress(f"{ranks} ranks: C level, {library.name}", 2 * number * len(found) + turn)
            if library.name not in runs:
                continue
            try:
                greeting, measured = run_once(library, ranks, plan.c_cells(ranks, number), plan.c_seconds)
            except LibraryFailedError as error:
                facts["failed"][f"{library.name}, {ranks} ranks"] = str(error)
                del runs[library.name]
                continue
            facts["versions"][library.name] = " ".join(greeting["version"].split())
            exchanges.append(greeting["exchange_ns"])
            facts["exchange"][str(ranks)] = statistics.median(exchanges) * 1e-9
            rounds = runs[library.name]
            if len(rounds) <= number:
                rounds.append([])
            rounds[number].append(measured)
    return runs


def _shifted(progress: Callable[[str, int], None], before: int, title: str, turn: int) -> None:
    progress(title, before + turn)


def turns(plan: Plan) -> int:
    """How often progress will be called."""
    return len(plan.ranks) * plan.c_rounds * 2 * len(libraries()[0]) if plan.c_level else 0


def _cell(cell: Cell, ranks: int, runs: Runs) -> dict[str, Any]:
    key = (cell.operation, element_count(cell.operation, cell.dtype, ranks, cell.size))
    peers = {}
    for name, rounds in runs.items():
        has = [both for both in rounds if all(key in turn for turn in both)]
        peers[name] = {
            "wrong": sum(turn[key]["wrong"] for both in has for turn in both),
            "samples": [[turn[key]["samples"] for turn in both] for both in has],
        }
    size = actual_size(cell.operation, cell.dtype, ranks, cell.size)
    return {**asdict(cell), "level": "c", "ranks": ranks, "size_wanted": cell.size, "size": size, "peers": peers}


def _shown(word: str) -> str:
    """A word of a command without the folders of this machine."""
    return Path(word).name
