"""The table of operations: what each takes, gives, and means. To add an operation, add one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

Tensors = list[torch.Tensor]
Sources = list[tuple[int, int]]
"""For each output block: (rank, slot) it comes from; rank -1 means reduced over all ranks."""
REDUCED = -1


@dataclass(frozen=True)
class Call:
    """The arguments of one call, all ranks local to the group."""

    inputs: Tensors
    outputs: Tensors
    rank: int
    size: int
    root: int
    reduce_op: Any
    group: Any
    async_op: bool = False


@dataclass(frozen=True)
class Op:
    """One operation.

    ``slots(rank, size, root)``: how many input blocks this rank gives. ``sources``: where its output blocks come from.
    ``in_place``: the input tensor is the output. ``joined``: blocks lie in one tensor rather than a list.
    """

    name: str
    call: Callable[[Call], Any]
    slots: Callable[[int, int, int], int]
    sources: Callable[[int, int, int], Sources]
    reduces: bool = False
    rooted: bool = False
    in_place: bool = False
    join_inputs: bool = False
    join_outputs: bool = False
    asynchronous: bool = True
    clause: str = ""
    words: tuple[str, ...] = ()


def _one(rank: int, size: int, root: int) -> int:
    return 1


def _each(rank: int, size: int, root: int) -> int:
    return size


def _root_each(rank: int, size: int, root: int) -> int:
    return size if rank == root else 0


def _gathered(rank: int, size: int, root: int) -> Sources:
    return [(peer, 0) for peer in range(size)]


def _exchanged(rank: int, size: int, root: int) -> Sources:
    return [(peer, rank) for peer in range(size)]


def _ring(rank: int, size: int, root: int) -> Sources:
    return [((rank - 1) % size, 0)]


def _group_to_global(group: Any, rank: int) -> int:
    return dist.get_global_rank(group, rank) if group is not dist.group.WORLD else rank


def _broadcast(c: Call) -> Any:
    return dist.broadcast(c.inputs[0], group_src=c.root, group=c.group, async_op=c.async_op)


def _all_reduce(c: Call) -> Any:
    return dist.all_reduce(c.inputs[0], c.reduce_op, group=c.group, async_op=c.async_op)


def _reduce(c: Call) -> Any:
    return dist.reduce(c.inputs[0], op=c.reduce_op, group_dst=c.root, group=c.group, async_op=c.async_op)


def _all_gather(c: Call) -> Any:
    return dist.all_gather(c.outputs, c.inputs[0], group=c.group, async_op=c.async_op)


def _all_gather_single(c: Call) -> Any:
    return dist.all_gather_into_tensor(c.outputs[0], c.inputs[0], group=c.group, async_op=c.async_op)


def _gather(c: Call) -> Any:
    outputs = c.outputs if c.rank == c.root else None
    return dist.gather(c.inputs[0], outputs, group_dst=c.root, group=c.group, async_op=c.async_op)


def _scatter(c: Call) -> Any:
    inputs = c.inputs if c.rank == c.root else None
    return dist.scatter(c.outputs[0], inputs, group_src=c.root, group=c.group, async_op=c.async_op)


def _reduce_scatter(c: Call) -> Any:
    return dist.reduce_scatter(c.outputs[0], c.inputs, c.reduce_op, group=c.group, async_op=c.async_op)


def _reduce_scatter_single(c: Call) -> Any:
    return dist.reduce_scatter_tensor(c.outputs[0], c.inputs[0], c.reduce_op, group=c.group, async_op=c.async_op)


def _all_to_all(c: Call) -> Any:
    return dist.all_to_all(c.outputs, c.inputs, group=c.group, async_op=c.async_op)


def _all_to_all_single(c: Call) -> Any:
    return dist.all_to_all_single(c.outputs[0], c.inputs[0], group=c.group, async_op=c.async_op)


class _Works:
    """Several handles that are waited for as one."""

    def __init__(self, works: Sequence[Any]) -> None:
        self._works = list(works)

    def wait(self, *timeout: Any) -> bool:
        for work in self._works:
            work.wait(*timeout)
        return True

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def get_future(self) -> Any:
        return torch.futures.collect_all([work.get_future() for work in self._works])


def _send_recv(c: Call) -> Any:
    """Every rank sends to the next one and receives from the one before."""
    recv = dist.irecv(c.outputs[0], group_src=(c.rank - 1) % c.size, group=c.group, tag=3)
    send = dist.isend(c.inputs[0], group_dst=(c.rank + 1) % c.size, group=c.group, tag=3)
    works = _Works([recv, send])
    return works if c.async_op else works.wait()


def _batch_send_recv(c: Call) -> Any:
    ops = [
        dist.P2POp(dist.isend, c.inputs[0], group=c.group, group_peer=(c.rank + 1) % c.size),
        dist.P2POp(dist.irecv, c.outputs[0], group=c.group, group_peer=(c.rank - 1) % c.size),
    ]
    works = _Works(dist.batch_isend_irecv(ops))
    return works if c.async_op else works.wait()


def _coalesced(call: Callable[[Any], None]) -> Callable[[Call], Any]:
    def run(c: Call) -> Any:
        with dist._coalescing_manager(group=c.group, async_ops=c.async_op) as manager:
            call(c)
        return manager if c.async_op else None

    return run


def _coalesced_all_reduce(c: Call) -> None:
    dist.all_reduce(c.inputs[0], c.reduce_op, group=c.group)


def _coalesced_all_gather(c: Call) -> None:
    dist.all_gather_into_tensor(c.outputs[0], c.inputs[0], group=c.group)


def _coalesced_reduce_scatter(c: Call) -> None:
    dist.reduce_scatter_tensor(c.outputs[0], c.inputs[0], c.reduce_op, group=c.group)


def _keep(rank: int, size: int, root: int) -> Sources:
    return [(root, 0)]


def _all_reduced(rank: int, size: int, root: int) -> Sources:
    return [(REDUCED, 0)]


def _root_reduced(rank: int, size: int, root: int) -> Sources:
    return [(REDUCED, 0)] if rank == root else []


def _root_gathered(rank: int, size: int, root: int) -> Sources:
    return _gathered(rank, size, root) if rank == root else []


def _from_root(rank: int, size: int, root: int) -> Sources:
    return [(root, rank)]


def _own_reduced(rank: int, size: int, root: int) -> Sources:
    return [(REDUCED, rank)]


OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op("broadcast", _broadcast, _one, _keep, rooted=True, in_place=True, clause="BC-01"),
        Op(
            "all_reduce",
            _all_reduce,
            _one,
            _all_reduced,
            reduces=True,
            in_place=True,
            clause="AR-01",
            words=("allreduce",),
        ),
        Op("reduce", _reduce, _one, _root_reduced, reduces=True, rooted=True, in_place=True, clause="RD-01"),
        Op("all_gather", _all_gather, _one, _gathered, clause="AG-01", words=("allgather",)),
        Op(
            "all_gather_into_tensor",
            _all_gather_single,
            _one,
            _gathered,
            join_outputs=True,
            clause="AG-02",
            words=("_allgather_base", "all_gather_single", "allgather"),
        ),
        Op("gather", _gather, _one, _root_gathered, rooted=True, clause="GA-01"),
        Op("scatter", _scatter, _root_each, _from_root, rooted=True, clause="SC-01"),
        Op("reduce_scatter", _reduce_scatter, _each, _own_reduced, reduces=True, clause="RS-01"),
        Op(
            "reduce_scatter_tensor",
            _reduce_scatter_single,
            _each,
            _own_reduced,
            reduces=True,
            join_inputs=True,
            clause="RS-02",
            words=("_reduce_scatter_base", "reduce_scatter"),
        ),
        Op("all_to_all", _all_to_all, _each, _exchanged, clause="AA-01", words=("alltoall",)),
        Op(
            "all_to_all_single",
            _all_to_all_single,
            _each,
            _exchanged,
            join_inputs=True,
            join_outputs=True,
            clause="AA-02",
            words=("alltoall_base", "alltoall"),
        ),
        Op("send_recv", _send_recv, _one, _ring, clause="PP-01", words=("send", "recv")),
        Op("batch_isend_irecv", _batch_send_recv, _one, _ring, clause="PP-05", words=("send", "recv", "coalescing")),
        Op(
            "all_reduce_coalesced",
            _coalesced(_coalesced_all_reduce),
            _one,
            _all_reduced,
            reduces=True,
            in_place=True,
            clause="CO-01",
            words=("allreduce_coalesced", "allreduce", "coalescing"),
        ),
        Op(
            "all_gather_coalesced",
            _coalesced(_coalesced_all_gather),
            _one,
            _gathered,
            join_outputs=True,
            clause="CO-01",
            words=("allgather_into_tensor_coalesced", "allgather", "coalescing"),
        ),
        Op(
            "reduce_scatter_coalesced",
            _coalesced(_coalesced_reduce_scatter),
            _each,
            _own_reduced,
            reduces=True,
            join_inputs=True,
            clause="CO-01",
            words=("reduce_scatter_tensor_coalesced", "reduce_scatter", "coalescing"),
        ),
    )
}
P2P_OPS = frozenset({"send_recv", "batch_isend_irecv"})
