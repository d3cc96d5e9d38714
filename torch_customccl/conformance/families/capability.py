"""What not every backend has: uneven sizes, aliases, barriers, sparse sums, functional collectives."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier, Verdict
from ..modes import poll
from ..registry import body, family
from ..tables import DTYPES

_ROWS: tuple[tuple[str, str, str, str, tuple[int, ...]], ...] = (
    ("uneven/all_gather", "uneven_all_gather", "all_gather", "AG-03", (2, 3, 5)),
    ("uneven/reduce_scatter", "uneven_reduce_scatter", "reduce_scatter", "RS-03", (2, 3, 5)),
    ("uneven/all_to_all", "uneven_all_to_all", "all_to_all", "AA-04", (2, 3, 5)),
    ("uneven/all_to_all_single", "uneven_all_to_all_single", "all_to_all_single", "AA-03", (2, 3, 4, 5, 8)),
    ("uneven/all_to_all_zero", "all_to_all_nothing", "all_to_all_single", "AA-03", (2, 3)),
    ("coll/all_gather_alias", "all_gather_alias", "all_gather_into_tensor", "AG-04", (2, 3)),
    ("coll/reduce_scatter_alias", "reduce_scatter_alias", "reduce_scatter_tensor", "RS-04", (2, 3)),
    ("barrier/order", "barrier_order", "barrier", "BA-01", (2, 3, 4, 5, 8)),
    ("barrier/async", "barrier_async", "barrier", "BA-01", (2, 3)),
    ("barrier/polled", "barrier_polled", "barrier", "BA-01", (2, 3)),
    ("barrier/in_group", "barrier_in_group", "barrier", "BA-01", (3,)),
    ("barrier/monitored", "monitored", "monitored_barrier", "BA-02", (2, 3, 5)),
    ("barrier/monitored_names", "monitored_names", "monitored_barrier", "BA-02", (2,)),
    ("sparse/all_reduce", "sparse_sum", "all_reduce", "SP-01", (2, 3)),
    *(
        (f"functional/{op}", "functional", op, "FN-01", (2, 3, 5))
        for op in ("all_reduce", "all_gather_tensor", "reduce_scatter_tensor", "all_to_all_single", "broadcast")
    ),
)
_SMOKE = ("uneven/all_to_all_single", "barrier/order", "coll/all_gather_alias")


@family
def generate() -> Iterator[Case]:
    """One case per row and world size; uneven splits again with elements of other sizes."""
    for name, function, op, clause, sizes in _ROWS:
        for size in sizes:
            dims: dict[str, Any] = {"op": op, "kind": name, "words": "uneven size equal sparse functional"}
            setup = {"op_timeout_s": 1.5, "cost_s": 3.0} if function == "monitored_names" else {}
            yield Case(
                f"{name}/ws{size}",
                "capability",
                clause,
                function,
                size,
                dims,
                Tier.SMOKE if size == 2 and name in _SMOKE else Tier.FULL if size > 4 else Tier.STANDARD,
                "fresh" if function == "monitored_names" else "warm",
                setup,
            )
    for dtype in ("u8", "bf16", "i64"):
        dims = {"op": "all_to_all_single", "kind": "uneven/all_to_all_single", "dtype": dtype}
        name = f"uneven/all_to_all_single/{dtype}/ws2"
        yield Case(name, "capability", "AA-03", "uneven_all_to_all_single", 2, dims)


def _part(rank: int, slot: int, numel: int) -> torch.Tensor:
    return torch.arange(numel, dtype=torch.float32) + 1000 * rank + 100 * slot


def _same(context: Context, got: torch.Tensor, want: torch.Tensor, what: str) -> None:
    context.expect(
        torch.equal(got.cpu(), want),
        f"{what}: got {got.flatten()[:4].tolist()}, expected {want.flatten()[:4].tolist()}",
        Verdict.WRONG_RESULT,
    )


@body
def uneven_all_gather(context: Context) -> None:
    """Rank r gives r + 2 elements."""
    outputs = [torch.zeros(rank + 2, device=context.device) for rank in range(context.size)]
    dist.all_gather(outputs, _part(context.rank, 0, context.rank + 2).to(context.device))
    for rank, output in enumerate(outputs):
        _same(context, output, _part(rank, 0, rank + 2), f"part of rank {rank}")


@body
def uneven_reduce_scatter(context: Context) -> None:
    """Rank r gets 2r + 1 elements."""
    inputs = [_part(context.rank, slot, 2 * slot + 1).to(context.device) for slot in range(context.size)]
    output = torch.zeros(2 * context.rank + 1, device=context.device)
    dist.reduce_scatter(output, inputs)
    everyone = [_part(rank, context.rank, output.numel()) for rank in range(context.size)]
    _same(context, output, torch.stack(everyone).sum(0), "reduced part")


@body
def uneven_all_to_all(context: Context) -> None:
    """Rank i gives rank j (i + j) mod 3 elements, so some tensors are empty."""
    n, me = context.size, context.rank
    outputs = [torch.zeros((peer + me) % 3, device=context.device) for peer in range(n)]
    dist.all_to_all(outputs, [_part(me, peer, (peer + me) % 3).to(context.device) for peer in range(n)])
    for peer, output in enumerate(outputs):
        _same(context, output, _part(peer, me, (peer + me) % 3), f"part of rank {peer}")


@body
def uneven_all_to_all_single(context: Context) -> None:
    """Rows of three elements; rank i gives rank j (2i + j) mod 4 rows."""
    n, me = context.size, context.rank

    def rows(source: int, target: int) -> int:
        return (2 * source + target) % 4

    def block(source: int, target: int) -> torch.Tensor:
        return (_part(source, target, 3 * rows(source, target)) % 251).to(dtype).reshape(-1, 3)

    dtype = DTYPES[context.dims.get("dtype", "f32")].torch
    inputs = torch.cat([block(me, peer) for peer in range(n)]).to(context.device)
    receive = [rows(peer, me) for peer in range(n)]
    output = torch.zeros(sum(receive), 3, dtype=dtype, device=context.device)
    dist.all_to_all_single(output, inputs, receive, [rows(me, peer) for peer in range(n)])
    _same(context, output, torch.cat([block(peer, me) for peer in range(n)]), "joined parts")


@body
def all_to_all_nothing(context: Context) -> None:
    """Only the first rank gives anything, all of it to the last; all other splits are zero."""
    n, me = context.size, context.rank
    send = [0] * (n - 1) + [5 if me == 0 else 0]
    receive = [5 if me == n - 1 else 0] + [0] * (n - 1)
    output = torch.zeros(sum(receive), device=context.device)
    dist.all_to_all_single(output, _part(me, 0, sum(send)).to(context.device), receive, send)
    _same(context, output, _part(0, 0, sum(receive)), "the only part")


@body
def all_gather_alias(context: Context) -> None:
    """The input is this rank's part of the output, as FSDP passes it."""
    output = torch.zeros(context.size * 40, device=context.device)
    mine = output[context.rank * 40 : (context.rank + 1) * 40]
    mine.copy_(_part(context.rank, 0, 40))
    dist.all_gather_into_tensor(output, mine)
    _same(context, output, torch.cat([_part(rank, 0, 40) for rank in range(context.size)]), "gathered in place")


@body
def reduce_scatter_alias(context: Context) -> None:
    """The output is this rank's part of the input."""
    inputs = torch.cat([_part(context.rank, slot, 40) for slot in range(context.size)]).to(context.device)
    mine = inputs[context.rank * 40 : (context.rank + 1) * 40]
    dist.reduce_scatter_tensor(mine, inputs)
    everyone = torch.stack([_part(rank, context.rank, 40) for rank in range(context.size)])
    _same(context, mine, everyone.sum(0), "reduced in place")


def _order(context: Context, barrier: Any, ranks: Sequence[int] = ()) -> None:
    ranks = ranks or range(context.size)
    for round in range(3):
        late = ranks[round % len(ranks)]
        if context.rank == late:
            time.sleep(0.05)
            context.store.set(f"came/{round}", b"1")
        barrier()
        context.expect(
            context.store.check([f"came/{round}"]),
            f"left barrier {round} before rank {late} entered it",
            Verdict.WRONG_RESULT,
        )


@body
def barrier_order(context: Context) -> None:
    """A different rank is late each time; nobody leaves before it comes."""
    _order(context, dist.barrier)


@body
def barrier_async(context: Context) -> None:
    """The same with the handle."""
    _order(context, lambda: dist.barrier(async_op=True).wait())


@body
def barrier_polled(context: Context) -> None:
    """The same with a handle that is only asked whether the barrier is completed."""
    _order(context, lambda: poll(lambda async_op: dist.barrier(async_op=async_op), context))


@body
def barrier_in_group(context: Context) -> None:
    """The same in a group of all ranks but the first."""
    ranks = range(1, context.size)
    seconds = timedelta(seconds=context.op_timeout_s)
    group = dist.new_group(list(ranks), backend=context.backend, timeout=seconds)
    if context.rank == 0:
        context.note(bystander=True)
    else:
        _order(context, lambda: dist.barrier(group=group), ranks)


def _monitored(context: Context, **arguments: Any) -> Any:
    group: Any = dist.group.WORLD
    return group.monitored_barrier(timedelta(seconds=context.op_timeout_s), **arguments)


@body
def monitored(context: Context) -> None:
    """monitored_barrier of the group object (the function of torch.distributed knows one backend by name)."""
    _order(context, lambda: _monitored(context))


@body
def monitored_names(context: Context) -> None:
    """Rank 1 does not come; rank 0 must name it."""
    _monitored(context)
    if context.rank == 0:
        context.refused(lambda: _monitored(context), "monitored_barrier without rank 1")
        said = str(context.info["refused_with"])
        context.expect(1 in ranks_named(said), f"the message does not name rank 1: {said}", Verdict.NONSTRICT)
    context.meet("named")


def ranks_named(message: str) -> set[int]:
    """The numbers of "rank 3", "Ranks 1, 2" and the like; a time or a count of something else is no rank."""
    lists = re.findall(
        r"\b(?:rank|peer|process)(?:e?s|\(s\))?[\s:=#\[({]*((?:\d+(?![\d.]*\d)[,\s]*(?:and\s)?)+)", message, re.I
    )
    return {int(number) for each in lists for number in re.findall(r"\d+", each)}


@body
def sparse_sum(context: Context) -> None:
    """Each rank has two entries, one of them in common."""
    indices = torch.tensor([[0, context.rank + 1]])
    value = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0]), (context.size + 1,)).to(context.device)
    dist.all_reduce(value)
    want = torch.tensor([float(context.size)] + [2.0] * context.size)
    _same(context, value.to_dense(), want, "sparse sum")


@body
def functional(context: Context) -> None:
    """The functional form of a collective; its result is a new tensor."""
    import torch.distributed._functional_collectives as functions

    n, me, group = context.size, context.rank, list(range(context.size))
    value = _part(me, 0, 4 * n).to(context.device)
    everyone = [_part(rank, 0, 4 * n) for rank in range(n)]
    mine = slice(4 * me, 4 * me + 4)
    calls: dict[str, Any] = {
        "all_reduce": lambda: (functions.all_reduce(value, "sum", group), torch.stack(everyone).sum(0)),
        "all_gather_tensor": lambda: (functions.all_gather_tensor(value, 0, group), torch.cat(everyone)),
        "reduce_scatter_tensor": lambda: (
            functions.reduce_scatter_tensor(value, "sum", 0, group),
            torch.stack([each[mine] for each in everyone]).sum(0),
        ),
        "all_to_all_single": lambda: (
            functions.all_to_all_single(value, None, None, group),
            torch.cat([each[mine] for each in everyone]),
        ),
        "broadcast": lambda: (functions.broadcast(value, n - 1, group), everyone[n - 1]),
    }
    got, want = calls[context.op]()
    _same(context, got + 0, want, context.op)
    _same(context, value, everyone[me], "the input")
