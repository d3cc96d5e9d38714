"""Tells groups whose CPU tensors this backend serves, however torch was asked for it."""

from typing import Any

import torch
import torch.distributed.distributed_c10d as c10d

from torch_customccl._autoload import NAME

_CPU = torch.device("cpu")


def is_ours(group: Any) -> bool:
    """Whether this rank is a member of `group` (None: the default one), made by "customccl" or "cpu:customccl,..."."""
    chosen: Any = c10d._get_default_group() if group is None else group
    if c10d._rank_not_in_group(chosen) or _CPU not in chosen._device_types:
        return False
    return bool(chosen._get_backend(_CPU).name() == NAME)


def backend_of_world() -> Any:
    """What serves the CPU tensors of the default group; None if nothing does."""
    world: Any = c10d.GroupMember.WORLD
    if world is None or _CPU not in world._device_types:
        return None
    backend = world._get_backend(_CPU)
    return getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL


def was_asked_for(group: Any) -> bool:
    """is_ours(), or it would be if its ranks could share memory: gloo serves it in our place (_fallback.py)."""
    chosen: Any = c10d._get_default_group() if group is None else group
    if c10d._rank_not_in_group(chosen):
        return False
    asked = str(c10d._world.pg_backend_config.get(chosen, "")).split(",")
    own_class = type(chosen).__module__.partition(".")[0] == __package__  # a Group
    return is_ours(chosen) or own_class or f"{_CPU.type}:{NAME}" in asked
