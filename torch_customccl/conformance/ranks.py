"""How the ranks of a worker set come to life: as processes of the kit, or by a launcher such as mpirun or torchrun."""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from .worker import WorkerSpec, serve

Started = tuple[list[Connection], list[Any]]
"""A pipe and a process (pid, exitcode, join) for each rank."""
Starter = Callable[[WorkerSpec], Started]

LAUNCH_LIMIT_S = 120.0
_RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def own_processes(device: str, preload: list[str]) -> Starter:
    """Forks of a server with torch loaded for CPU; fresh interpreters for CUDA."""
    context: Any = multiprocessing.get_context("spawn" if device == "cuda" else "forkserver")
    if device != "cuda":
        context.set_forkserver_preload(preload)

    def start(spec: WorkerSpec) -> Started:
        pipes, processes = [], []
        for rank in range(spec.world_size):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, spec, rank), daemon=True)
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        return pipes, processes

    return start


class LaunchedRank:
    """A process that belongs to a launcher: its exit code is known to the launcher only."""

    exitcode: int | None = None

    def __init__(self, pid: int, launcher: subprocess.Popen[bytes]) -> None:
        self.pid, self._launcher = pid, launcher

    def join(self, timeout: float) -> None:
        """Wait until the process is gone; then the launcher's turn to end has come."""
        limit = time.monotonic() + timeout
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        with suppress(subprocess.TimeoutExpired):
            self._launcher.wait(max(0.0, limit - time.monotonic()))
        with suppress(ProcessLookupError):
            os.killpg(self._launcher.pid, signal.SIGKILL)
        self._launcher.wait()


def launched(template: str) -> Starter:
    """``template`` has {n} for the number of ranks and {cmd} for what each of them runs, all on this machine."""
    if "{n}" not in template or "{cmd}" not in template:
        raise ValueError(f"--launcher {template!r}: it must contain {{n}} and {{cmd}}")

    def start(spec: WorkerSpec) -> Started:
        address = str(Path(spec.directory) / "parent")
        command = f"{shlex.quote(sys.executable)} -m {__name__} {shlex.quote(address)}"
        words = shlex.split(template.replace("{n}", str(spec.world_size)).replace("{cmd}", command))
        with Listener(address, "AF_UNIX", backlog=spec.world_size) as listener:
            log = Path(spec.directory) / "launcher.log"
            with log.open("wb") as output:
                launcher = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)
            return _accept(listener, launcher, spec, log)

    return start


def _accept(listener: Listener, launcher: subprocess.Popen[bytes], spec: WorkerSpec, log: Path) -> Started:
    """Take the call of each rank; a launcher that ends before is an error."""
    listener._listener._socket.settimeout(0.5)  # type: ignore[attr-defined]
    found: dict[int, tuple[Connection, LaunchedRank]] = {}
    limit = time.monotonic() + LAUNCH_LIMIT_S
    while len(found) < spec.world_size:
        try:
            pipe = listener.accept()
        except TimeoutError:
            if launcher.poll() is not None or time.monotonic() > limit:
                with suppress(ProcessLookupError):
                    os.killpg(launcher.pid, signal.SIGKILL)
                said = log.read_text(errors="replace")[-800:]
                raise ChildProcessError(
                    f"the launcher started {len(found)} of {spec.world_size} ranks: {said}"
                ) from None
            continue
        rank, pid = pipe.recv()
        pipe.send(spec)
        found[rank] = (pipe, LaunchedRank(pid, launcher))
    return [found[rank][0] for rank in sorted(found)], [found[rank][1] for rank in sorted(found)]


def main() -> None:
    """A launched rank: tell the parent who this is, get the specification, serve."""
    rank = next((int(os.environ[name]) for name in _RANK_NAMES if name in os.environ), None)
    if rank is None:
        raise SystemExit(f"the launcher sets none of {', '.join(_RANK_NAMES)}")
    pipe = Client(sys.argv[1], "AF_UNIX")
    pipe.send((rank, os.getpid()))
    serve(pipe, pipe.recv(), rank)


if __name__ == "__main__":
    main()
