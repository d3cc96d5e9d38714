"""The handle of one operation of the reference backend."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .bases import WorkBase


class ReferenceWork(WorkBase):
    """Done once, with a value or an error; waiters have a deadline."""

    def __init__(self, what: str, timeout_s: float, group_ranks: str) -> None:
        super().__init__()
        self._what, self._limit = what, timeout_s
        self._started = time.monotonic()
        self._ranks = group_ranks
        self._event = threading.Event()
        self._error: Exception | None = None
        self._future: Any = torch.futures.Future()
        self._source = -1
        self.came: Mapping[int, object] = {}
        """The ranks whose part is here."""
        self._lock = threading.Lock()

    def finish(self, value: Any, source: int = -1) -> None:
        """The operation succeeded; only the first end counts."""
        with self._lock:
            if self._event.is_set():
                return
            self._source = source
            self._event.set()
        self._future.set_result(value)

    def fail(self, error: Exception) -> None:
        """The operation failed; only the first end counts."""
        with self._lock:
            if self._event.is_set():
                return
            self._error = error
            self._event.set()
        self._future.set_exception(RuntimeError(f"{self._what}: {error}"))

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Block until the end; raises what went wrong, or that the time is over."""
        explicit = timeout.total_seconds()
        left = explicit if explicit > 0 else self._limit - (time.monotonic() - self._started)
        if not self._event.wait(max(left, 0)):
            error = TimeoutError(f"{self._what} timed out after {time.monotonic() - self._started:.1f} s {self._ranks}")
            if explicit <= 0:
                self.fail(error)
            raise dist.DistBackendError(str(error))
        if self._error is not None:
            raise dist.DistBackendError(f"{self._what}: {self._error}")
        return True

    def synchronize(self) -> None:
        """Nothing beyond waiting on CPU."""
        self.wait()

    def is_completed(self) -> bool:
        """Done, in either way."""
        return self._event.is_set()

    def is_success(self) -> bool:
        """Done without an error."""
        return self._event.is_set() and self._error is None

    def get_future(self) -> Any:
        """Completes with the output tensors."""
        return self._future

    def source_rank(self) -> int:
        """Whose message a receive took."""
        return self._source

    def _source_rank(self) -> int:
        return self._source

    def result(self) -> Any:
        """The output tensors."""
        return self._future.value()
