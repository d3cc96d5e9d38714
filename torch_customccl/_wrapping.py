"""Puts a function of ours around one of torch's, where torch decides something by the names of its own backends."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch.distributed as dist

Function = Callable[..., Any]
_MARK = "_customccl_is_around"


def wrap(owner: ModuleType, name: str, around: Callable[[Function], Function]) -> None:
    """owner.name, if there is one, becomes around(owner.name), also as torch.distributed shows it; once."""
    torchs = getattr(owner, name, None)
    if torchs is None or hasattr(torchs, _MARK):
        return
    ours = functools.wraps(torchs)(around(torchs))
    setattr(ours, _MARK, True)
    for module in (owner, dist):
        if getattr(module, name, None) is torchs:
            setattr(module, name, ours)
