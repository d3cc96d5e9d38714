"""Repairs the default backend of groups made from strings like "cpu:customccl,cuda:nccl".

torch 2.11 to 2.13 picks the default backend type of such a group by comparing the upper-case key of the first
registered plugin with lower-case names: it never matches, and because a plugin is registered the fallback to gloo
is skipped as well. Without nccl in the string the group keeps the type UNDEFINED: destroy warns, and completion
hooks and the default backend cannot be had. Merely installing this package would thus spoil "cpu:gloo" for others.
So the helper that makes groups is wrapped, and a group that comes out undefined gets the type torch meant: ours
when the string names us, else gloo when it names gloo. From 2.14 torch looks the name up correctly and nothing is
wrapped.
"""

from typing import Any

import torch.distributed.distributed_c10d as c10d

from torch_customccl._autoload import NAME
from torch_customccl._loader import torch_minor
from torch_customccl._wrapping import Function, wrap


def install() -> None:
    """Wrap torch's helper, once, in the versions that need it."""
    if torch_minor() in ("2.11", "2.12", "2.13"):
        wrap(c10d, "_new_process_group_helper", _with_default_backend)


def _with_default_backend(helper: Function) -> Function:
    def with_default_backend(*args: Any, **kwargs: Any) -> Any:
        result = helper(*args, **kwargs)
        repair(result[0])
        return result

    return with_default_backend


def repair(group: Any) -> None:
    """Give `group` (a ProcessGroup, or the non-member mark) its default backend type if torch left it undefined."""
    try:
        if not isinstance(group, c10d.ProcessGroup) or group.name() != "undefined":
            return
        backend = c10d._world.pg_map[group][0]
        names = {str(name) for name in c10d.BackendConfig(c10d.Backend(backend)).get_device_backend_map().values()}
        if NAME in names:
            group._set_default_backend(c10d.ProcessGroup.BackendType.CUSTOM)
        elif c10d.Backend.GLOO in names:
            group._set_default_backend(c10d.ProcessGroup.BackendType.GLOO)
    except Exception:  # the group works without; better so than a failed init_process_group
        return
