"""What the bodies of these tests use inside a rank."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist
from harness import worker
from harness.settings import GROUP_TIMEOUT_S

from torch_customccl import Group, create_group

LIMIT = timedelta(seconds=GROUP_TIMEOUT_S)


def store() -> dist.Store:
    """The store that the ranks of this set share."""
    if dist.is_initialized():
        return dist.PrefixStore("tests of groups", dist.distributed_c10d._get_default_store())
    return worker.seat.store()


def group(rank: int, size: int, name: str, **options: object) -> Group:
    return create_group(store(), rank, size, name, timeout=LIMIT, **options)
