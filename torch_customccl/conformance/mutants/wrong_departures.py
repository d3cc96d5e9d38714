"""Planted bugs in how a rank leaves: destroying a group that was used does not end well."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch.distributed as dist

from .peer_group import Finish
from .reference import ReferenceGroup
from .work import ReferenceWork


class _WasUsed(ReferenceGroup):
    """Knows whether a broadcast was made in it."""

    used = False

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        self.used = self.used or what == "broadcast"
        return super().exchange(what, meta, inputs, finish)


class CrashesInDestroy(_WasUsed):
    """Dies when it is destroyed after a broadcast."""

    def shutdown(self) -> None:
        if self.used:
            os.kill(os.getpid(), signal.SIGSEGV)
        super().shutdown()


class HangsInDestroy(_WasUsed):
    """Destroying it never ends after a broadcast."""

    def shutdown(self) -> None:
        if self.used:
            threading.Event().wait()
        super().shutdown()


class CrashesAtExit(_WasUsed):
    """Can be destroyed; then the process dies on its way out."""

    def shutdown(self) -> None:
        super().shutdown()
        if self.used:
            threading._register_atexit(os.abort)  # type: ignore[attr-defined]


class LeavesProcesses(ReferenceGroup):
    """Has a process of its own for each group, which outlives it."""

    _helpers: ClassVar[list[subprocess.Popen[bytes]]] = []

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self._helpers.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))  # it ends with this process
