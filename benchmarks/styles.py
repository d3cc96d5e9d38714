"""How a c10d user calls each operation: `dist.*`, the backend object directly, asynchronously, or as functional ops.

Directly means by the shortest call that the backend's object has: one of its own, or c10d's with a list and options.

`bind` gives a function without arguments that makes one call and returns when it is done; KeyError if the style does
not have the operation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceScatterOptions,
)

from benchmarks.buffers import Buffers

Call = Callable[[], object]
STYLES = ("dist", "async", "direct", "functional")


def bind(style: str, operation: str, buffers: Buffers, group: Any, finished_on_return: bool = False) -> Call:
    """finished_on_return: calls with asyncOp=False are done when they return, so a direct caller needs no wait()."""
    call = _TABLES[style][operation](buffers, group)
    return call if style != "direct" or finished_on_return else partial(_wait, call)


def operations(style: str) -> list[str]:
    return list(_TABLES[style])


def _wait(call: Call) -> None:
    call().wait()  # type: ignore[attr-defined]


def _round_trip(send: Callable[[int], object], recv: Callable[[int], object], b: Buffers) -> Call:
    partner = b.rank ^ 1
    if partner >= b.ranks:
        return lambda: None
    first, second = (send, recv) if b.rank % 2 == 0 else (recv, send)

    def call() -> None:
        first(partner)
        second(partner)

    return call


def _dist_send_recv(b: Buffers, group: Any) -> Call:
    return _round_trip(partial(dist.send, b.input, group=group), partial(dist.recv, b.output, group=group), b)


def _direct_send_recv(b: Buffers, group: Any) -> Call:
    backend, sent, received = _backend(group), [b.input], [b.output]
    trip = _round_trip(
        lambda peer: backend.send(sent, peer, 0).wait(), lambda peer: backend.recv(received, peer, 0).wait(), b
    )

    def call() -> Any:
        trip()
        return _Done

    return call


def _direct_all_reduce(b: Buffers, group: Any) -> Call:
    backend = _backend(group)
    if own := getattr(backend, "all_reduce", None):
        return partial(own, b.input)
    return partial(backend.allreduce, [b.input], _sync(AllreduceOptions()))


class _Done:
    @staticmethod
    def wait() -> None: ...


def _coalesced(b: Buffers, group: Any) -> Call:
    def call() -> None:
        with dist._coalescing_manager(group=group):
            for part in b.parts:
                dist.all_reduce(part, group=group)

    return call


def _async(b: Buffers, group: Any) -> Call:
    post = partial(dist.all_reduce, b.input, group=group, async_op=True)
    return lambda: post().wait()


def _backend(group: Any) -> Any:
    return group._get_backend(torch.device("cpu"))


def _sync(options: Any, **fields: Any) -> Any:
    options.asyncOp = False
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def _functional(name: str, *arguments: Any) -> Callable[[Buffers, Any], Call]:
    """A functional op and its wait."""

    def bind_one(b: Buffers, group: Any) -> Call:
        op = getattr(torch.ops._c10d_functional, name)
        wait = torch.ops._c10d_functional.wait_tensor
        extra = [
            group.group_name if argument == "group" else b.ranks if argument == "ranks" else argument
            for argument in arguments
        ]

        def call() -> object:
            return wait(op(b.input, *extra))

        return call

    return bind_one


_DIST: dict[str, Callable[[Buffers, Any], Call]] = {
    "all_reduce": lambda b, g: partial(dist.all_reduce, b.input, group=g),
    "all_gather": lambda b, g: partial(dist.all_gather_into_tensor, b.output, b.input, group=g),
    "reduce_scatter": lambda b, g: partial(dist.reduce_scatter_tensor, b.output, b.input, group=g),
    "broadcast": lambda b, g: partial(dist.broadcast, b.input, 0, group=g),
    "reduce": lambda b, g: partial(dist.reduce, b.input, 0, group=g),
    "gather": lambda b, g: partial(dist.gather, b.input, b.parts if b.rank == 0 else None, 0, group=g),
    "scatter": lambda b, g: partial(dist.scatter, b.output, b.parts if b.rank == 0 else None, 0, group=g),
    "all_to_all": lambda b, g: partial(dist.all_to_all_single, b.output, b.input, group=g),
    "all_to_all_skewed": lambda b, g: partial(
        dist.all_to_all_single, b.output, b.input, b.output_splits, b.input_splits, group=g
    ),
    "send_recv": _dist_send_recv,
    "barrier": lambda b, g: partial(dist.barrier, group=g),
    "coalesced": _coalesced,
}

_DIRECT: dict[str, Callable[[Buffers, Any], Call]] = {
    "all_reduce": _direct_all_reduce,
    "all_gather": lambda b, g: partial(_backend(g)._allgather_base, b.output, b.input, _sync(AllgatherOptions())),
    "reduce_scatter": lambda b, g: partial(
        _backend(g)._reduce_scatter_base, b.output, b.input, _sync(ReduceScatterOptions())
    ),
    "broadcast": lambda b, g: partial(
        _backend(g).broadcast, [b.input], _sync(BroadcastOptions(), rootRank=0, rootTensor=0)
    ),
    "barrier": lambda b, g: partial(_backend(g).barrier, _sync(BarrierOptions())),
    "send_recv": _direct_send_recv,
}

# The in-place one: out-of-place functional ops measure the allocator as well.
_FUNCTIONAL = {"all_reduce": _functional("all_reduce_", "sum", "group")}

_TABLES: dict[str, dict[str, Callable[[Buffers, Any], Call]]] = {
    "dist": _DIST,
    "direct": _DIRECT,
    "async": {"all_reduce": _async},
    "functional": _FUNCTIONAL,
}
