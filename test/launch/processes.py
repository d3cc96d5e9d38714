"""Ranks as threads of this process: a Coordinator needs nothing that threads do not have."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

from torch_customccl.communicator import Communicator
from torch_customccl.launch import Coordinator, LaunchInfo

LIMIT = timedelta(seconds=60)
_session = os.urandom(4).hex()  # another run of these tests beside this one has other ports
_launches = count()


def fresh_launch() -> str:
    """A launch id of its own for every launch: a launch meets once per process."""
    return f"test-{_session}-{next(_launches)}"


def info(rank: int, size: int, launch_id: str, **more: Any) -> LaunchInfo:
    return LaunchInfo.detect({}, rank=rank, world_size=size, launch_id=launch_id, **more)


def in_ranks(size: int, body: Callable[[int], Any]) -> list[Any]:
    """What body(rank) returned or raised, by rank."""
    outcomes: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            outcomes[rank] = body(rank)
        except BaseException as error:  # what pytest.raises() and pytest.fail() raise is no Exception
            outcomes[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), name=str(rank), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads), "a rank hangs"
    return outcomes


def coordinators(size: int, body: Callable[[Coordinator], Any], **more: Any) -> list[Any]:
    """Run body(coordinator) in every rank of a new launch; what it returned, by rank. The first error is raised."""
    launch = more.pop("launch_id", None) or fresh_launch()
    outcomes = in_ranks(size, lambda rank: body(Coordinator(info(rank, size, launch, **more), timeout=LIMIT)))
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def communicators(size: int, body: Callable[[Communicator], Any], **options: Any) -> list[Any]:
    """Run body(communicator) in every rank of a new launch; what it returned, by rank."""
    return coordinators(size, lambda coordinator: body(Communicator(coordinator, timeout=LIMIT, **options)))
