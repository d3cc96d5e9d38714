"""One rank: a process that runs bodies until it is told to leave. It dies with its parent."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from . import rank as rank_side
from .messages import Failed, Leave, Returned, Task, pack, unpack

PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Seat:
    """Which rank a worker is, and where it meets the others."""

    rank: int
    size: int
    store_port: int
    prefix: str
    timeout_s: float
    init: bool  # whether the worker makes the default group before its first body
    directory: str

    @property
    def log_path(self) -> Path:
        return Path(self.directory) / f"rank{self.rank}.log"

    @property
    def stack_path(self) -> Path:
        return Path(self.directory) / f"rank{self.rank}.stack"

    def store(self) -> dist.Store:
        """The store of this set; it belongs to the parent, so no killed rank takes it away."""
        client = dist.TCPStore("127.0.0.1", self.store_port, is_master=False)
        return dist.PrefixStore(self.prefix, client)


seat: Seat


def main(given: Seat, parent: Connection) -> None:
    global seat
    seat = given
    _prepare(given)
    rank_side._connect(parent)
    ready = not given.init
    while True:
        try:
            message = unpack(parent.recv_bytes())
        except EOFError:
            return
        if isinstance(message, Leave):
            if dist.is_initialized():
                dist.destroy_process_group()
            parent.send_bytes(pack(Returned(None)))
            return
        try:
            if not ready:
                rank_side.init_group(given.rank, given.size, given.store(), given.timeout_s)
                ready = True
            answer: Any = Returned(_run(message, given))
            data = pack(answer)
        except BaseException as error:  # also SystemExit and pytest's outcomes: the test decides what they mean
            data = pack(_failure(error))
        parent.send_bytes(data)


def _run(task: Task, given: Seat) -> Any:
    return task.body.resolve()(given.rank, given.size, *task.args)


def _failure(error: BaseException) -> Failed:
    line = f"{type(error).__name__}: {error}".strip()
    return Failed(line, "".join(traceback.format_exception(error)), isinstance(error, pytest.skip.Exception))


def _prepare(given: Seat) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(given.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.enable(2)
    # The file stays open as long as the process lives: faulthandler keeps only its descriptor.
    stacks = os.open(given.stack_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    torch.set_num_threads(1)
    # The newer names of some functions do not exist in the older torch versions that the tests run on as well.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
