"""A PyTorch c10d backend for ranks on one machine: `torch.distributed.init_process_group("customccl")`.

Nothing has to be imported to use it: installing the package registers the name. Importing it loads no C++ either
(data loader workers import torch, and so this package); the shim is loaded with the first group, `Options` or
`info()`.
"""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_customccl._version import __version__

__all__ = [
    "Group",
    "Options",
    "__version__",
    "create_group",
    "include_dir",
    "info",
    "join_group",
    "library",
    "open_store",
    "serve_store",
]

if TYPE_CHECKING:
    from torch_customccl.group import Group, create_group, join_group
    from torch_customccl.group_store import open_store, serve_store

    Options = Any

# Where the names come from that need torch, or the shim, when they are first used.
_LATER = {
    "Group": "group",
    "create_group": "group",
    "join_group": "group",
    "open_store": "group_store",
    "serve_store": "group_store",
}


def info() -> dict[str, Any]:
    """What `python -m torch_customccl info --json` prints, as plain values. A missing shim is a fact, not an error."""
    from torch_customccl._info import gather

    return gather()


def include_dir() -> str:
    """The folder of `customccl.h`, the C interface (docs/c-abi.md)."""
    return str(Path(__file__).parent / "include")


def library() -> str:
    """The path of `libcustomccl.so`, for `ctypes.CDLL` or a linker. It needs neither torch nor Python."""
    return str(Path(__file__).parent / "libcustomccl.so")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name == "Options":
        from torch_customccl._loader import load

        return load().Options
    if name in _LATER:
        return getattr(importlib.import_module(f"torch_customccl.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
