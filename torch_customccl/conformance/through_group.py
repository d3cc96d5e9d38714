"""Judges Group objects (docs/groups.md) by cases that are written for torch.distributed: a module for --import.

    python -m torch_customccl.conformance --backend customccl --import torch_customccl.conformance.through_group

In ranks that import it, init_process_group and new_group make a Group by create_group, in the place of the ProcessGroup
that torch made; and an operation of torch.distributed is the method of that name, with ranks of the group. What has no
method (coalesced calls, functional collectives, DDP) takes the Group as the ProcessGroup that it is.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from torch_customccl import Group, create_group
from torch_customccl._loader import load

_OPERATIONS = (
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "send",
    "recv",
    "isend",
    "irecv",
)
_world: Any = c10d._world
_Function = Callable[..., Any]


def _replace(name: str, make: Callable[[_Function], _Function]) -> None:
    original = getattr(c10d, name)
    replaced = wraps(original)(make(original))
    for module in (dist, c10d):
        setattr(module, name, replaced)


def _is_ours(group: Any) -> bool:
    if not isinstance(group, dist.ProcessGroup):
        return False  # of ranks outside
    try:
        return isinstance(group._get_backend(torch.device("cpu")), load().CustomBackend)
    except RuntimeError:
        return False  # no backend for the CPU


def _group_instead_of(made: Any, timeout: timedelta | None) -> Group:
    """A Group over the same ranks and store, which takes the place of `made` in torch's tables; `made` ends."""
    store = dist.PrefixStore("through group", _world.pg_map[made][1])
    limit, ranks = timeout or c10d.default_pg_timeout, dist.get_process_group_ranks(made)
    group = create_group(store, made.rank(), made.size(), made.group_name, timeout=limit, ranks=ranks)
    for table in (_world.pg_map, _world.pg_names, _world.pg_backend_config, _world.pg_to_tag):
        if made in table:
            table[group] = table.pop(made)
    for groups in _world.tags_to_pg.values():
        groups[:] = [group if each is made else each for each in groups]
    _world.pg_group_ranks.pop(made, None)
    c10d._unregister_process_group(made.group_name)
    made.shutdown()
    return group


def _world_of_groups(original: _Function) -> _Function:
    def init_process_group(*args: Any, **keywords: Any) -> None:
        original(*args, **keywords)
        default = dist.group.WORLD
        if _is_ours(default):
            timeout = inspect.signature(original).bind(*args, **keywords).arguments.get("timeout")
            c10d._update_default_pg(_group_instead_of(default, timeout))

    return init_process_group


def _new_group(original: _Function) -> _Function:
    @functools.wraps(original)
    def new_group(*args: Any, **keywords: Any) -> Any:
        made = original(*args, **keywords)
        timeout = inspect.signature(original).bind(*args, **keywords).arguments.get("timeout")
        return _group_instead_of(made, timeout) if _is_ours(made) else made

    return new_group


def _destroy(original: _Function) -> _Function:
    def destroy_process_group(group: Any = None) -> None:
        ended = [*_world.pg_names] if group is None or group == dist.group.WORLD else [group]
        original(group)
        for each in ended:
            if isinstance(each, Group):
                each.close()

    return destroy_process_group


def _method(original: _Function) -> _Function:
    signature = inspect.signature(original)

    def call(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        given = dict(bound.arguments)
        group = given.pop("group") or dist.group.WORLD
        by_torch = group in _world.pg_coalesce_state or given.pop("device_ids", None) is not None
        if by_torch or not isinstance(group, Group):
            return original(*args, **keywords)
        _use_ranks_of(group, given, original.__name__)
        for splits in ("output_split_sizes", "input_split_sizes"):
            if splits in given:
                given[splits] = given[splits] or ()
        named = {name: given.pop(name) for name in ("async_op", "timeout") if name in given}
        result = getattr(group, original.__name__)(*given.values(), **named)
        return dist.get_global_rank(group, result) if original.__name__ == "recv" else result

    return call


def _use_ranks_of(group: Group, given: dict[str, Any], name: str) -> None:
    """torch names a rank of the world, or with group_src and group_dst one of the group."""
    for root in ("src", "dst"):
        if root not in given:
            continue
        own = given.pop(f"group_{root}")
        if given[root] is None and own is None:
            if name in ("gather", "scatter"):
                given[root] = 0
            elif name in ("recv", "irecv"):
                continue  # from any rank
        given[root] = c10d._canonicalize_group_rank(group, given[root], own)


_replace("init_process_group", _world_of_groups)
_replace("new_group", _new_group)
_replace("destroy_process_group", _destroy)
for _name in _OPERATIONS:
    _replace(_name, _method)
