"""A deadline that does not count the time its processes stood in line for a processor.

On a busy machine a rank may be runnable for seconds without running. That is nobody's fault, so it must not turn into a
hang. Linux tells the waiting time of each thread in schedstat; where it does not, the clock is an ordinary one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

MOST = 10.0
"""A deadline is stretched at most so many times."""
_LEAST_STEP_S = 0.1
_Queued = dict[int, int]


def queue_is_told() -> bool:
    """True where the system tells how long threads have waited for a processor."""
    return bool(_queued(os.getpid()))


def _queued(process: int) -> _Queued:
    """Nanoseconds each thread of a process has been runnable without running."""
    told: _Queued = {}
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with suppress(OSError, IndexError, ValueError):
                text = Path(f"/proc/{process}/task/{thread}/schedstat").read_text()
                told[int(thread)] = int(text.split()[1])
    return told


def _sessions(leaders: Sequence[int]) -> list[int]:
    """The leaders and the other processes of their sessions: what they have started."""
    members = list(leaders)
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with suppress(OSError, ValueError):
            if os.getsid(int(name)) in leaders and int(name) not in leaders:
                members.append(int(name))
    return members


class FairClock:
    """``left()`` seconds remain; each process given leads its session. Used by one thread."""

    def __init__(self, limit_s: float, leaders: Sequence[int]) -> None:
        self._limit_s, self._leaders = limit_s, leaders
        self._before = {thread: spent for leader in leaders for thread, spent in _queued(leader).items()}
        self._started = time.monotonic()
        self._end = float("inf")

    def left(self) -> float:
        """Seconds until the deadline; it moves while the processes wait for a processor."""
        now = time.monotonic()
        left = self._started + self._limit_s - now
        if left <= 0:
            left += min(self.queued_s(), (MOST - 1) * self._limit_s)
            left = max(left, _LEAST_STEP_S) if left > 0 else left
        return min(left, self._end - now)

    def shorten(self, grace_s: float) -> None:
        """Only the grace remains from now on."""
        self._end = min(self._end, time.monotonic() + grace_s)

    def queued_s(self) -> float:
        """The longest any one thread has waited for a processor since the start."""
        waits = (
            spent - self._before.get(thread, 0)
            for member in _sessions(self._leaders)
            for thread, spent in _queued(member).items()
        )
        return max(waits, default=0) / 1e9
