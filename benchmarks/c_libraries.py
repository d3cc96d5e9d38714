"""What the C level compares: our C interface and the MPIs, one C program compiled for each, and its ranks at work."""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import debian, install, machine, native
from benchmarks.peers import OURS

PATIENCE = 40.0  # seconds that one answer may take
REGION_BYTES = 1 << 20


class LibraryFailedError(RuntimeError):
    """The ranks of a library ended, or did not answer; the text is the end of what they wrote."""


@dataclass
class Library:
    """A library, its compiled program, and what starts its ranks; with an empty `launcher`, we do, with a token."""

    name: str
    program: Path
    launcher: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, ranks: int) -> list[str]:
        return [*self.launcher, "-n", str(ranks), str(self.program)] if self.launcher else [str(self.program)]

    def shown(self, ranks: int) -> str:
        """The command without the folders of this machine."""
        return " ".join(Path(word).name for word in self.command(ranks))


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


class Ranks:
    """The ranks of a library, asleep at a pipe each until they are asked for something (collectives.c says what for).

    LibraryFailedError wherever they fail. Ours are children of this process, an MPI's those of its launcher; both end
    when their pipe is closed, so they do not outlive us.
    """

    def __init__(self, library: Library, ranks: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="benchmarks-")
        folder = Path(self._folder.name)
        (folder / "region").write_bytes(bytes(REGION_BYTES))
        self._pipes = [_pipe(folder / f"commands-{rank}") for rank in range(ranks)]
        self._unread = b""
        self.processes = _start(library, ranks, folder)
        try:
            self.version = " ".join(self._answer()["version"].split())
        except LibraryFailedError:
            self.end()
            raise

    def ask(self, *words: object) -> dict[str, Any]:
        command = " ".join(map(str, words)) + "\n"
        for pipe in self._pipes:
            os.write(pipe, command.encode())
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while not (line := self._line(deadline)).startswith(b"{"):  # launchers have their say as well
            pass
        answer: dict[str, Any] = json.loads(line, strict=False)
        return answer

    def _line(self, deadline: float) -> bytes:
        output = self.processes[0].stdout
        assert output is not None
        while b"\n" not in self._unread:
            if not select.select([output], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise LibraryFailedError(f"no answer within {PATIENCE:.0f} s")
            if not (more := os.read(output.fileno(), 1 << 16)):
                errors = (Path(self._folder.name) / "errors").read_text(errors="replace")
                raise LibraryFailedError(errors.strip()[-500:] or "its first rank ended")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def end(self) -> None:
        """Once. Ranks that do not end by themselves are made to."""
        for pipe in self._pipes:
            os.close(pipe)
        deadline = time.monotonic() + 10
        for process in self.processes:
            _end(process, deadline)
            if process.stdout is not None:
                process.stdout.close()
        self._folder.cleanup()


def _pipe(path: Path) -> int:
    """Open for both ends, so that neither we nor a rank waits for the other to open it."""
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


def _start(library: Library, ranks: int, folder: Path) -> list[subprocess.Popen[bytes]]:
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
    command = [*library.command(ranks), str(folder / "region"), str(folder / "commands")]
    with open(folder / "errors", "a") as errors:
        return [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env={**environment, **more}, cwd=folder)
            for more in own
        ]


def _end(process: subprocess.Popen[bytes], deadline: float) -> None:
    """A launcher takes its ranks with it when it is asked to end."""
    hurries: list[Callable[[], None]] = [lambda: None, process.terminate, process.kill]
    for hurry in hurries:
        hurry()
        try:
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
            return
        except subprocess.TimeoutExpired:
            deadline = time.monotonic() + 5
