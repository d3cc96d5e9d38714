"""Lets a group of customccl say so: ProcessGroup._get_backend_name() is "custom" for every backend but torch's own.

Libraries that decide by it take "custom" for a stand-in that has nobody to talk to: torchrec 1.8 then hands out its own
input instead of what it would receive. So our groups answer as torch.distributed.get_backend() does.
"""

from typing import Any

import torch.distributed as dist

from torch_customccl._autoload import NAME
from torch_customccl._own_groups import was_asked_for
from torch_customccl._wrapping import Function, wrap


def install() -> None:
    """Wrap torch's method, once."""
    wrap(dist.ProcessGroup, "_get_backend_name", _naming_ours)


def _naming_ours(kind_of: Function) -> Function:
    def _get_backend_name(self: Any) -> str:
        kind: str = kind_of(self)
        return NAME if kind == "custom" and was_asked_for(self) else kind

    return _get_backend_name
