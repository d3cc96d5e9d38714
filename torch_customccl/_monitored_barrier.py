"""Lets torch.distributed.monitored_barrier serve groups of customccl.

torch's function asks for the backend's name and refuses every one but gloo. The groups of this backend have the
operation, also those that gloo serves, so for them the function is called as if they were gloo's; for all others
nothing changes.
"""

import functools
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from torch_customccl._own_groups import was_asked_for

_MARK = "_customccl_serves_its_groups"


def install() -> None:
    """Wrap torch's function, once."""
    refusing = getattr(c10d, "monitored_barrier", None)
    if refusing is None or hasattr(refusing, _MARK):
        return

    @functools.wraps(refusing)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        if not was_asked_for(group):
            return refusing(group, timeout, wait_all_ranks)  # type: ignore[no-any-return]
        if timeout is None:
            timeout = c10d.default_pg_timeout
        elif isinstance(timeout, float):
            timeout = c10d.timedelta(seconds=timeout)
        c10d._check_valid_timeout(timeout)
        chosen: Any = c10d._get_default_group() if group is None else group
        chosen.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
        return None

    setattr(monitored_barrier, _MARK, True)
    c10d.monitored_barrier = monitored_barrier
    if getattr(dist, "monitored_barrier", None) is refusing:
        dist.monitored_barrier = monitored_barrier
