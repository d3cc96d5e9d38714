"""What is measured at the Python level: one small adapter per peer.

A peer gives calls for cells it can do; what it cannot do is a gap in the tables, not a zero.
"""

import os
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import copies, install, native, styles
from benchmarks.buffers import Allocate, Buffers, plain_memory

OURS = "customccl"
OURS_SHARED = "customccl, shared tensors"  # tensors allocated by the backend
OURS_WIDE = "customccl, float32"  # in cells of two-byte types: as many elements of four bytes
FLOOR = "floor"  # a c10d backend that does nothing
NO_WORK = "floor without a Work"  # and gives no Work to who asked for none, which Python then need not wrap
EXCHANGE = "exchange"  # one that only has the ranks exchange a flag each
OURS_IN_C = "C interface"  # a c10d backend that only calls customccl's: the floor and the C level, in the same burst
OUR_WAYS = (OURS, OURS_SHARED, OURS_WIDE, OURS_IN_C)
COPY = "memcpy"  # copies as much as the operation must at least, large tensors only
BARE = (FLOOR, NO_WORK, EXCHANGE, COPY)  # do less than the operation
TIMEOUT = timedelta(seconds=60)


class UnsupportedError(Exception):
    """This peer has no such call; the text says why."""


@dataclass(frozen=True)
class Scope:
    """What a peer is measured by; None: by everything."""

    operations: Container[str] | None = None  # it has no others
    style: str | None = None
    dtype: torch.dtype | None = None
    most_bytes: int | None = None

    def check(self, style: str, operation: str, tensor: torch.Tensor) -> None:
        """UnsupportedError for what lies outside."""
        if self.operations is not None and operation not in self.operations:
            raise UnsupportedError(f"has no {operation}")
        if self.style not in (None, style):
            raise UnsupportedError(f"measured by {self.style} calls only")
        if self.dtype not in (None, tensor.dtype):
            raise UnsupportedError(f"measured with {self.dtype} only")
        if self.most_bytes is not None and tensor.nbytes > self.most_bytes:
            raise UnsupportedError("compared with small operations only")


EVERYTHING = Scope()


class C10dPeer:
    """A c10d backend, as a group of all ranks."""

    def __init__(
        self,
        name: str,
        backend: str,
        *,
        finished_on_return: bool = False,
        shared: bool = False,
        scope: Scope = EVERYTHING,
    ) -> None:
        self.name = name
        self.correct = name not in BARE
        self._finished_on_return = finished_on_return
        self._shared = shared
        self._scope = scope
        self.runs_steps = scope == EVERYTHING
        self.group: Any = dist.new_group(backend=backend, timeout=TIMEOUT)

    @property
    def allocate(self) -> Allocate:
        if not self._shared:
            return plain_memory
        backend = _cpu_backend(self.group)
        return lambda count, dtype: backend.allocate_tensor(count, dtype=dtype, device=torch.device("cpu"))

    def call(self, style: str, operation: str, buffers: Buffers) -> styles.Call:
        self._scope.check(style, operation, buffers.input)
        try:
            return styles.bind(style, operation, buffers, self.group, self._finished_on_return)
        except KeyError:
            raise UnsupportedError(f"style {style} has no {operation}") from None


class DeepSpeedPeer:
    """DeepSpeed's shared-memory all_reduce: a C++ op on a tensor, for ranks of one host. It offers nothing else."""

    name = "deepspeed"
    correct = True
    group = None
    runs_steps = False
    allocate = staticmethod(plain_memory)

    def __init__(self) -> None:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        module = install.load_deepspeed()
        os.environ.setdefault("MASTER_ADDR", "benchmarks")
        # Its segments in /dev/shm are named after user, address and port; one name per run, taken away afterwards.
        os.environ["MASTER_PORT"] = os.environ["BENCHMARKS_RUN"]
        os.environ["LOCAL_SIZE"] = str(ranks)
        module.initialize(ranks, rank)

    def call(self, style: str, operation: str, buffers: Buffers) -> styles.Call:
        if (style, operation) != ("direct", "all_reduce"):
            raise UnsupportedError("DeepSpeed has all_reduce by a direct call only")
        op, tensor = torch.ops.deepspeed.inference_all_reduce_, buffers.input
        return lambda: op(tensor)


class CopyPeer:
    """No backend at all."""

    name = COPY
    correct = False
    group = None
    runs_steps = False
    allocate = staticmethod(plain_memory)

    def call(self, style: str, operation: str, buffers: Buffers) -> styles.Call:
        if style != "dist" or buffers.input.dtype != torch.float32 or buffers.size < copies.LEAST_BYTES:
            raise UnsupportedError("compared with large operations only")
        return copies.bind(operation, buffers)


Peer = C10dPeer | DeepSpeedPeer | CopyPeer


class Relay:
    """A group over which a program runs once for all peers: its all_reduces go to the one that was chosen last.

    Two equal nets in different memory differ by up to 20 ms of a step of 80 (a virtual machine's pages lie well or
    badly), which is more than most peers take to reduce their gradients.
    """

    def __init__(self) -> None:
        self.group: Any = dist.new_group(backend=_registered("relay", "create_relay"), timeout=TIMEOUT)
        self._backend = _cpu_backend(self.group)

    def choose(self, peer: "Peer") -> None:
        native.load_noop().choose(self._backend, _cpu_backend(peer.group))


def _cpu_backend(group: Any) -> Any:
    return group._get_backend(torch.device("cpu"))


_EXCHANGED = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv", "barrier")


def _registered(name: str, create: str, *arguments: str) -> str:
    """The c10d name of a backend that this benchmark compiles."""
    backend = f"benchmarks_{name}".replace(" ", "_")
    if not hasattr(dist.Backend, backend.upper()):
        made = partial(getattr(native.load_noop(), create), *arguments)
        dist.Backend.register_backend(backend, made, devices=["cpu"])
    return backend


def _compiled(name: str, create: str, scope: Scope = EVERYTHING, *arguments: str) -> Peer:
    return C10dPeer(name, _registered(name, create, *arguments), finished_on_return=True, scope=scope)


def _ours(name: str = OURS, **more: Any) -> Peer:
    from torch_customccl import _autoload

    _autoload.register()  # torch itself does that where the package is installed; a tree on a lent machine is not
    return C10dPeer(name, "customccl", finished_on_return=True, **more)


def _in_c() -> Peer:
    from torch_customccl import library  # here: `compare` measures trees that had none

    scope = Scope(operations=["all_reduce"], style="dist", dtype=torch.float32)
    return _compiled(OURS_IN_C, "create_c_interface", scope, library())


PEERS: dict[str, Callable[[], Peer]] = {
    OURS: _ours,
    "gloo": lambda: C10dPeer("gloo", "gloo"),
    FLOOR: lambda: _compiled(FLOOR, "create"),
    NO_WORK: lambda: _compiled(NO_WORK, "create_without_work", Scope(["all_reduce"], style="dist")),
    EXCHANGE: lambda: _compiled(EXCHANGE, "create_exchange", Scope(_EXCHANGED, most_bytes=1 << 20)),
    OURS_IN_C: _in_c,
    COPY: CopyPeer,
    "deepspeed": DeepSpeedPeer,
    OURS_SHARED: partial(_ours, OURS_SHARED, shared=True, scope=Scope(style="direct")),
}
