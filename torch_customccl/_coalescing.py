"""Ends torch's `_coalescing_manager` in good order when an operation inside is refused, and keeps it from batches.

torch leaves the group coalescing then: after an operation with a bad tensor, or with gloo in our place, which does not
coalesce, every later all_reduce of that group would be noted down and never carried out. While the manager is open
that happens to the operations of other threads, too. Who opens it knows; `batch_isend_irecv` opens it for every backend
that coalesces, so for ours each operation of a batch is started by itself, as torch does for gloo's. For groups of
other backends nothing changes.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch.distributed.distributed_c10d as c10d

from torch_customccl._own_groups import is_ours, was_asked_for
from torch_customccl._wrapping import Function, uncompiled, wrap


def install() -> None:
    """Wrap torch's functions, once."""
    wrap(c10d, "_coalescing_manager", _in_good_order)
    wrap(c10d, "batch_isend_irecv", _one_by_one)


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


def _one_by_one(batching: Function) -> Function:
    @uncompiled
    def batch_isend_irecv(p2p_op_list: list[Any]) -> list[Any]:
        c10d._check_p2p_op_list(p2p_op_list)
        if p2p_op_list[0].tensor.device.type != "cpu" or not is_ours(p2p_op_list[0].group):
            return batching(p2p_op_list)  # type: ignore[no-any-return]
        works = []
        for each in p2p_op_list:
            peer = {"group_dst" if each.op is c10d.isend else "group_src": each.group_peer}
            works.append(each.op(each.tensor, group=each.group, tag=each.tag, **peer))
        return works

    return batch_isend_irecv
