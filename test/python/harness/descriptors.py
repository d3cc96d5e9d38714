"""A process that has few descriptors left: a fresh one, in which nothing of other tests ends and gives some back."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def free_descriptors(number: int) -> Iterator[None]:
    """All that this process may have are taken, but for so many."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as taken:
        highest = max(map(int, os.listdir("/proc/self/fd")))
        while (latest := taken.enter_context(open(os.devnull)).fileno()) < highest:
            pass  # no gap below
        resource.setrlimit(resource.RLIMIT_NOFILE, (latest + 1 + number, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
