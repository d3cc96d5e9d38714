"""Who was started together: `LaunchInfo`. Importing this package loads neither torch nor C++."""

from torch_customccl.launch.info import LaunchInfo

__all__ = ["LaunchInfo"]
