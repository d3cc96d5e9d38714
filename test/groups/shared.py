"""What the bodies of these tests use inside a rank."""

from __future__ import annotations

import time
from datetime import timedelta

import torch
import torch.distributed as dist
from harness import worker
from harness.settings import GROUP_TIMEOUT_S

from torch_customccl import Group, create_group

LIMIT = timedelta(seconds=GROUP_TIMEOUT_S)
SWAPPED = ["1", "0"]  # the members of a group of two, in the other order


def store() -> dist.Store:
    """The store that the ranks of this set share."""
    if dist.is_initialized():
        return dist.PrefixStore("tests of groups", dist.distributed_c10d._get_default_store())
    return worker.seat.store()


def group(rank: int, size: int, name: str, **options: object) -> Group:
    return create_group(store(), rank, size, name, timeout=LIMIT, **options)


def total(made: Group) -> float:
    """1 + 2 + ... over all ranks, which all must be there for it."""
    x = torch.tensor([float(made.rank() + 1)])
    made.all_reduce(x)
    return float(x.item())


class SlowToFollow(dist.Store):
    """Another's, which takes its time to say how often a rank has tried."""

    def __init__(self, other):
        super().__init__()
        self.other = other

    def check(self, keys):
        if any("groups_of" in key for key in keys):
            time.sleep(0.3)
        return self.other.check(keys)

    def set(self, key, value):
        self.other.set(key, value)

    def get(self, key):
        return self.other.get(key)

    def add(self, key, value):
        return self.other.add(key, value)
