"""The classes of torch that a Python backend derives from, with the few methods that are used here.

torch's own stubs describe these methods with overloads that only the C++ classes have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed as dist

if TYPE_CHECKING:

    class GroupBase:
        """dist.ProcessGroup."""

        def __init__(self, rank: int, size: int) -> None: ...

        def rank(self) -> int: ...

        def size(self) -> int: ...

    class WorkBase:
        """dist.Work."""

else:
    GroupBase = dist.ProcessGroup
    WorkBase = dist.Work
