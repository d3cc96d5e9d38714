"""Backends with one planted bug each, and the reference they are made of. Importing this registers them all."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from .planted import PLANTED
from .reference import ReferenceGroup
from .useless import Deadlock, DoNothing


def _register(name: str, group: Any) -> None:
    if hasattr(dist.Backend, name.upper()):
        return

    def create(store: dist.Store, rank: int, size: int, timeout: Any) -> Any:
        return group(store, rank, size, timeout)

    dist.Backend.register_backend(name, create, devices=["cpu"])


for _name, _group in {"reference": ReferenceGroup, "donothing": DoNothing, "deadlock": Deadlock}.items():
    _register(_name, _group)
for _mutant in PLANTED:
    _register(_mutant.name, _mutant.group)

__all__ = ["PLANTED", "ReferenceGroup"]
