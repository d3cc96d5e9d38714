"""What torch.distributed has no call for: messages, groups made and changed while a program runs, the Communicator.

`bind` gives two functions without arguments: what is done before each call, untimed, and the call.
"""

import functools
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import messages
from benchmarks.peers import OURS, Peer, UnsupportedError

Step = Callable[[], object]
LIMIT = timedelta(seconds=60)


def bind(operation: str, size: int, peer: Peer) -> tuple[Step, Step]:
    """UnsupportedError if the peer has nothing like it."""
    if (peer.name, operation) == ("gloo", "message"):
        group: Any = peer.group
        return _nothing, messages.round_trip(*messages.over_gloo(group), size)
    if peer.name != OURS:
        raise UnsupportedError("no such call")
    return _CALLS[operation](size)


def _nothing() -> None: ...


@functools.cache
def _coordinator() -> Any:
    """One per process: its store is where the groups meet."""
    from torch_customccl.launch import Coordinator, LaunchInfo  # here: `compare` measures trees that had none

    rank, ranks = dist.get_rank(), dist.get_world_size()
    launch_id = f"benchmarks-{os.environ['BENCHMARKS_RUN']}-{ranks}"
    info = LaunchInfo.detect({}, rank=rank, world_size=ranks, launch_id=launch_id, master_addr="127.0.0.1")
    return Coordinator(info, timeout=LIMIT)


def _group(name: str) -> Any:
    from torch_customccl import create_group

    mine = _coordinator()
    return create_group(mine.store, mine.rank, mine.world_size, name, timeout=LIMIT)


def _message(size: int) -> tuple[Step, Step]:
    group = _group("messages")
    return _nothing, messages.round_trip(group.send_message, group.recv_message, size)


def _group_ready(_: int) -> tuple[Step, Step]:
    """From nothing to a group whose first operation can begin. Before: the end of the last one."""
    made: list[Any] = []

    def end() -> None:
        while made:
            made.pop().close()

    return end, lambda: made.append(_group("made again and again"))


def _commit(_: int) -> tuple[Step, Step]:
    """The members change places. Before: they meet, in the background as always."""
    group = _group("changing")

    def prepare() -> None:
        group.prepare(group.members[::-1]).wait()

    return prepare, group.commit


def _communicator(size: int) -> tuple[Step, Step]:
    from torch_customccl.communicator import Communicator

    communicator = Communicator(_coordinator(), timeout=LIMIT)
    tensor = torch.zeros(size // 4)
    return _nothing, functools.partial(communicator.allreduce, tensor)


_CALLS: dict[str, Callable[[int], tuple[Step, Step]]] = {
    "message": _message,
    "group_ready": _group_ready,
    "commit": _commit,
    "communicator": _communicator,
}
