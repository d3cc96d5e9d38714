"""Puts a function of ours around one of torch's, where something is decided by the names of torch's own backends."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

Function = Callable[..., Any]
_MARK = "_customccl_is_around"


def wrap(owner: ModuleType | type, name: str, around: Callable[[Function], Function]) -> None:
    """owner.name, if there is one, becomes around(owner.name), also as torch.distributed shows it; once."""
    torchs = getattr(owner, name, None)
    if torchs is None or hasattr(torchs, _MARK):
        return
    ours = functools.wraps(torchs)(around(torchs))
    setattr(ours, _MARK, True)
    for module in (owner, dist):
        if getattr(module, name, None) is torchs:
            setattr(module, name, ours)


def uncompiled(function: Function) -> Function:
    """`function`, called from compiled code too, and never traced: torch.compile passes over torch's functions, whose
    place it takes, and cannot look into groups."""

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(function)(*args, **keywords)  # type: ignore[no-untyped-call]
        return function(*args, **keywords)

    return call
