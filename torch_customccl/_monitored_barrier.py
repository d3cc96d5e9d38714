"""Lets torch.distributed.monitored_barrier serve groups of customccl.

torch's function asks for the backend's name and refuses every one but gloo. The groups of this backend have the
operation, also those that gloo serves, so for them the function is called as if they were gloo's; for all others
nothing changes.
"""

from typing import Any

import torch.distributed.distributed_c10d as c10d

from torch_customccl._own_groups import was_asked_for
from torch_customccl._wrapping import Function, uncompiled, wrap


def install() -> None:
    """Wrap torch's function, once."""
    wrap(c10d, "monitored_barrier", _serving_our_groups)


def _serving_our_groups(refusing: Function) -> Function:
    @uncompiled
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

    return monitored_barrier
