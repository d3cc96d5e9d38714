"""What the body of a test uses inside its rank."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

from .messages import Event, pack, unpack
from .settings import BACKEND, GROUP_TIMEOUT_S

_parent: Connection | None = None


def _connect(parent: Connection) -> None:
    global _parent
    _parent = parent


def tell_parent(event: str, payload: object = None) -> None:
    """Report that something has happened; the test waits for it with `WorkerSet.wait_for`."""
    assert _parent is not None
    _parent.send_bytes(pack(Event(event, payload)))


def hear_parent() -> Any:
    """Wait for what the test says with `WorkerSet.tell`."""
    assert _parent is not None
    return unpack(_parent.recv_bytes())


@contextmanager
def subgroup(ranks: list[int] | None = None, **options: Any) -> Iterator[Any]:
    """A group over `ranks` (global ranks, default all), destroyed again by its members."""
    group = dist.new_group(ranks, backend=BACKEND, **options)
    yield group
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        dist.destroy_process_group(group)


@dataclass(frozen=True)
class Raised:
    """An exception as a value that travels to the test."""

    type_name: str
    bases: tuple[str, ...]
    text: str
    seconds: float  # from the call to the exception

    def is_a(self, name: str) -> bool:
        return name in self.bases


def error_of(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Raised:
    """Call it, and if it returned a Work wait for that; return what it raised. Raising nothing is an error."""
    start = time.perf_counter()
    try:
        result = call(*args, **kwargs)
        if isinstance(result, dist.Work):
            result.wait()
    except Exception as error:
        seconds = time.perf_counter() - start
        bases = tuple(base.__name__ for base in type(error).__mro__)
        return Raised(type(error).__name__, bases, str(error), seconds)
    raise AssertionError(f"{getattr(call, '__name__', call)} raised nothing, it returned {result!r}")


def in_a_while(true: Callable[[], Any]) -> bool:
    """Whether that becomes true: what another thread does is awaited, not timed."""
    deadline = time.monotonic() + GROUP_TIMEOUT_S
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(true())


def group_works(group: Any = None, case: str = "") -> None:
    """An all_reduce over the group (default: the default group) gives the right sum."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    value = torch.full((3,), float(rank + 1))
    dist.all_reduce(value, group=group)
    wanted = size * (size + 1) / 2
    assert value.tolist() == [wanted] * 3, f"{case}: the group does not work any more: {value.tolist()}"


def share_no_memory() -> None:
    """From now on this process shares memory with none: its groups are gloo's."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def init_group(rank: int, size: int, store: dist.Store, timeout_s: float) -> None:
    dist.init_process_group(BACKEND, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s))
