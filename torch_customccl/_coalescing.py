"""Ends torch's `_coalescing_manager` in good order when an operation inside is refused.

torch leaves the group coalescing then: after a `batch_isend_irecv` with a bad tensor, or with gloo in our place, which
does not coalesce, every later all_reduce of that group would be noted down and never carried out. For groups of other
backends nothing changes.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed.distributed_c10d as c10d

from torch_customccl._own_groups import is_ours, was_asked_for
from torch_customccl._wrapping import Function, wrap


def install() -> None:
    """Wrap torch's function, once."""
    wrap(c10d, "_coalescing_manager", _in_good_order)


def _in_good_order(leaving: Function) -> Function:
    @contextlib.contextmanager
    def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[Any]:
        coalesced = c10d._get_default_group() if group is None else group
        nested = coalesced in c10d._world.pg_coalesce_state  # what is under way is another manager's
        try:
            with leaving(group, device, async_ops) as manager:
                yield manager
        except BaseException:
            if not nested and was_asked_for(coalesced):
                _give_up(coalesced, device)
            raise

    return _coalescing_manager


def _give_up(group: Any, device: Any) -> None:
    """Forget what was noted down; what is under way already goes on."""
    c10d._world.pg_coalesce_state.pop(group, None)
    if device is not None and is_ours(group):
        group._end_coalescing(device)
