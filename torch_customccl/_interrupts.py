"""Locks in code that Ctrl-C may leave at any place."""

from __future__ import annotations

import threading
from typing import Any

_RLock: Any = type(threading.RLock())


class InterruptibleLock(_RLock):  # type: ignore[misc]
    """A lock that is free again wherever the `with` that took it was interrupted. No thread takes it twice.

    Python 3.14 looks for signals when an __enter__ that is a C function has returned, and not yet behind the `with`:
    whoever is interrupted there keeps the lock for ever (nearly every second time in a loop; never with 3.11). It does
    not look when a Python function has returned. __exit__ stays the C function: it has released before Python looks.
    """

    def __enter__(self) -> bool:
        try:
            return bool(self.acquire())
        except BaseException:
            if self._is_owned():
                self.release()
            raise
