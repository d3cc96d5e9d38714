"""Lets torch's _set_pg_timeout reach groups of customccl, where torch 2.11 to 2.13 know gloo and nccl alone.

`torch.distributed.breakpoint` and some trainers use it. Newer torch forwards the time to every backend.
"""

from typing import Any

import torch.distributed.distributed_c10d as c10d

from torch_customccl._own_groups import is_ours
from torch_customccl._wrapping import Function, wrap


def install() -> None:
    """Wrap torch's function, once, in the versions that need it."""
    if not hasattr(c10d, "set_timeout"):
        wrap(c10d, "_set_pg_timeout", _reaching_our_groups)


def _reaching_our_groups(ignoring: Function) -> Function:
    def _set_pg_timeout(timeout: Any, group: Any = None) -> None:
        if not is_ours(group):
            return ignoring(timeout, group)  # type: ignore[no-any-return]
        chosen: Any = c10d._get_default_group() if group is None else group
        chosen.set_timeout(timeout)
        return None

    return _set_pg_timeout
