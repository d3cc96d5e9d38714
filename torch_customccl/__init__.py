"""A PyTorch c10d backend for ranks on one machine: `torch.distributed.init_process_group("customccl")`.

Nothing has to be imported to use it: installing the package registers the name. Importing it loads no C++ either
(data loader workers import torch, and so this package); the shim is loaded with the first group, `Options` or
`info()`.
"""

from typing import TYPE_CHECKING, Any

from torch_customccl._version import __version__

__all__ = ["Options", "__version__", "info"]

if TYPE_CHECKING:
    Options = Any


def info() -> dict[str, Any]:
    """What `python -m torch_customccl info --json` prints, as plain values. A missing shim is a fact, not an error."""
    from torch_customccl._info import gather

    return gather()


def __getattr__(name: str) -> Any:
    if name == "Options":
        from torch_customccl._loader import load

        return load().Options
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
