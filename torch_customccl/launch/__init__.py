"""Who was started together, and a place where they meet: `LaunchInfo`, `Coordinator`.

Importing this package loads neither torch nor C++; making a Coordinator does.
"""

from typing import TYPE_CHECKING, Any

from torch_customccl.launch.info import LaunchInfo

if TYPE_CHECKING:
    from torch_customccl.launch.coordinator import Coordinator

__all__ = ["Coordinator", "LaunchInfo"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name == "Coordinator":
        from torch_customccl.launch.coordinator import Coordinator

        return Coordinator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
