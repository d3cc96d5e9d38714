"""Groups whose ranks cannot share memory: other hosts, other network namespaces, no anonymous shared memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch.distributed as dist

_log = logging.getLogger("torch_customccl")

# Group name -> why it runs over gloo, for `torch_customccl.info()`.
groups_over_gloo: dict[str, str] = {}


def over_gloo(
    store: dist.Store, rank: int, timeout: timedelta, name: str, global_ranks: Sequence[int], why: str
) -> Any:
    """The Gloo backend inside torch, for a group that shared memory cannot serve. Says so once, on the group's rank 0.

    Raises RuntimeError when this torch has no gloo.
    """
    import torch.distributed as dist  # not above: `info` looks at the table where there is no torch

    if not dist.is_gloo_available():
        raise RuntimeError(f"{why}. This torch has no gloo to fall back to")
    groups_over_gloo[name] = why
    level = logging.WARNING if rank == 0 else logging.DEBUG
    _log.log(level, 'group "%s" runs over gloo, not shared memory: %s', name, why)
    made = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, len(global_ranks), timeout)
    known: Any = made.options  # what torch tells a gloo of its own
    known.global_ranks_in_group, known.group_name = list(global_ranks), name
    return made
