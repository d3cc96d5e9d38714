"""What the tests of reconfigure() share."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from shared import LIMIT, store

THERE = hasattr(dist.ProcessGroup, "reconfigure")
needs_it = pytest.mark.skipif(not THERE, reason=f"torch {torch.__version__} has no reconfigure; 2.14 and later have")


def start(rank, size, place=None):
    """A default group that has met nobody."""
    place = place or store()
    dist.init_process_group(
        "customccl", store=place, rank=rank, world_size=size, timeout=LIMIT, enable_reconfigure=True
    )
    return place


def exchange(place, key, rank, size, handle=None):
    """The handles of all, by rank."""
    place.set(f"{key}/{rank}", handle or dist._get_reconfigure_handle())
    return [place.get(f"{key}/{each}").decode() for each in range(size)]


def go(uuid, handles, group=None, timeout=LIMIT):
    assert dist._reconfigure(uuid, handles, group=group, timeout=timeout).wait()


def total(group=None):
    x = torch.tensor([(dist.get_rank() if group is None else group.rank()) + 1.0])
    dist.all_reduce(x, group=group)
    return x.item()


def place_now():
    return dist.get_rank(), dist.get_world_size(), total()


def store_at(port):
    return dist.PrefixStore("reconfigured", dist.TCPStore("127.0.0.1", port, is_master=False))
