"""Two backends that can do nothing: one says so, one never comes back."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from .bases import GroupBase

_METHODS = (
    "broadcast",
    "allreduce",
    "allreduce_coalesced",
    "reduce",
    "allgather",
    "allgather_coalesced",
    "all_gather_single",
    "_allgather_base",
    "all_gather_single_coalesced",
    "allgather_into_tensor_coalesced",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_single",
    "_reduce_scatter_base",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "alltoall",
    "all_to_all_single",
    "alltoall_base",
    "barrier",
    "monitored_barrier",
    "send",
    "recv",
    "recv_anysource",
    "_start_coalescing",
)


class _Named(GroupBase):
    backend_name = ""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._name = ""

    def getBackendName(self) -> str:  # noqa: N802
        return self.backend_name

    def name(self) -> str:
        return self.backend_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    @property
    def group_name(self) -> str:
        return self._name

    def abort(self) -> None:
        return None

    def shutdown(self) -> None:
        return None


class DoNothing(_Named):
    """Refuses every operation, clearly."""

    backend_name = "donothing"


class Deadlock(_Named):
    """Never comes back from any operation."""

    backend_name = "deadlock"


def _refusing(name: str) -> Any:
    def method(self: DoNothing, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Backend donothing does not support {name}")

    return method


def _stuck(self: Deadlock, *args: Any, **kwargs: Any) -> Any:
    threading.Event().wait()


for _method in _METHODS:
    setattr(DoNothing, _method, _refusing(_method))
    setattr(Deadlock, _method, _stuck)
