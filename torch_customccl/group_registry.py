"""Makes a Group known to the parts of torch that look groups up: ranks by group, groups by name.

No entry makes torch.distributed think that there is a world, and destroy_process_group() does not end our groups: it
ends those in its table of backends, where they are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

_numbers = itertools.count()


def register(group: dist.ProcessGroup, name: str, ranks: Sequence[int]) -> None:
    """`ranks[r]` is what torch.distributed's functions, which name ranks of a world, call rank r of the group."""
    unique = c10d.GroupName(f"customccl:{name}:{next(_numbers)}")  # twins in one process stay apart
    group._set_group_name(unique)
    group._set_group_desc(name)
    enter(group, ranks)


def enter(group: dist.ProcessGroup, ranks: Sequence[int]) -> None:
    """The entries themselves. Again after destroy_process_group(), which empties torch's tables."""
    c10d._world.pg_group_ranks[group] = {rank: member for member, rank in enumerate(ranks)}
    c10d._unregister_process_group(group.group_name)
    c10d._register_process_group(group.group_name, group)


def forget(group: dist.ProcessGroup) -> None:
    """Takes the entries back. Nothing happens where there are none."""
    c10d._world.pg_group_ranks.pop(group, None)
    c10d._unregister_process_group(group.group_name)
