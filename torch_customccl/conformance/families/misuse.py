"""Wrong calls: wrong on this rank alone, or not matching between ranks. They must be refused, never carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier
from ..registry import body, family

_TIMEOUT_S = 1.5


def _tensors(context: Context, count: int, numel: int = 4) -> list[torch.Tensor]:
    return [torch.zeros(numel, device=context.device) for _ in range(count)]


_Wrong = dict[str, tuple[str, Callable[[], Any], tuple[str, ...]]]


def _local(context: Context) -> _Wrong:
    """name -> (operation, call, words its message should have). Every rank makes the same wrong call."""
    return _wrong_lists(context) | _wrong_tensors(context)


def _wrong_lists(context: Context) -> _Wrong:
    n, one = context.size, torch.ones(4, device=context.device)
    mixed = [*_tensors(context, n - 1), torch.zeros(4, dtype=torch.int32, device=context.device)]
    return {
        "short_list": (
            "all_gather",
            lambda: dist.all_gather(_tensors(context, n - 1), one),
            ("list", "size", "rank", "output"),
        ),
        "long_list": (
            "all_gather",
            lambda: dist.all_gather(_tensors(context, n + 1), one),
            ("list", "size", "rank", "output"),
        ),
        "mixed_dtypes": ("all_gather", lambda: dist.all_gather(mixed, one), ("type",)),
        "output_too_small": (
            "all_gather_into_tensor",
            lambda: dist.all_gather_into_tensor(_tensors(context, 1, 4 * n - 1)[0], one),
            ("size",),
        ),
        "output_dtype": (
            "all_gather_into_tensor",
            lambda: dist.all_gather_into_tensor(torch.zeros(4 * n, dtype=torch.int32, device=context.device), one),
            ("type",),
        ),
        "input_not_divisible": (
            "reduce_scatter_tensor",
            lambda: dist.reduce_scatter_tensor(one, torch.ones(4 * n + 1, device=context.device)),
            ("size", "divi"),
        ),
        "short_inputs": (
            "reduce_scatter",
            lambda: dist.reduce_scatter(one, _tensors(context, n - 1)),
            ("list", "size", "rank", "input"),
        ),
        "splits_sum": (
            "all_to_all_single",
            lambda: dist.all_to_all_single(
                torch.zeros(6, device=context.device),
                torch.ones(6, device=context.device),
                [6] + [0] * (n - 1),
                [1] * n,
            ),
            ("split", "sum", "size"),
        ),
        "splits_length": (
            "all_to_all_single",
            lambda: dist.all_to_all_single(
                torch.zeros(6, device=context.device),
                torch.ones(6, device=context.device),
                [6] + [0] * n,
                [6] + [0] * n,
            ),
            ("split", "size", "length"),
        ),
    }


def _wrong_tensors(context: Context) -> _Wrong:
    n, one = context.size, torch.ones(4, device=context.device)
    stretched = torch.zeros(1, device=context.device).expand(4)
    sparse = torch.eye(4).to_sparse()
    return {
        "root_too_big": ("broadcast", lambda: dist.broadcast(one, src=n + 5), ("rank", "root")),
        "root_negative": ("reduce", lambda: dist.reduce(one, dst=-7), ("rank", "root")),
        "peer_too_big": ("send_recv", lambda: dist.isend(one, n + 5), ("rank", "peer", "destination")),
        "shared_output": ("all_reduce", lambda: dist.all_reduce(stretched), ("stride", "overlap", "memory", "dense")),
        "shared_gather_output": (
            "all_gather_into_tensor",
            lambda: dist.all_gather_into_tensor(torch.zeros(1, device=context.device).expand(4 * n), one),
            ("stride", "overlap", "memory", "dense"),
        ),
        "sparse": ("broadcast", lambda: dist.broadcast(sparse, src=0), ("sparse", "dense", "layout")),
    }


_LOCAL = {
    "short_list": "all_gather",
    "long_list": "all_gather",
    "mixed_dtypes": "all_gather",
    "output_too_small": "all_gather_into_tensor",
    "output_dtype": "all_gather_into_tensor",
    "input_not_divisible": "reduce_scatter_tensor",
    "short_inputs": "reduce_scatter",
    "splits_sum": "all_to_all_single",
    "splits_length": "all_to_all_single",
    "root_too_big": "broadcast",
    "root_negative": "reduce",
    "peer_too_big": "send_recv",
    "shared_output": "all_reduce",
    "shared_gather_output": "all_gather_into_tensor",
    "sparse": "broadcast",
}
_SHARED = ("shared_output", "shared_gather_output")
_ALONE = (
    "short_list",
    "output_too_small",
    "input_not_divisible",
    "short_inputs",
    "splits_sum",
    "root_too_big",
)
_CROSS = (
    ("all_reduce", "size"),
    ("all_reduce", "size_large"),
    ("all_reduce", "dtype"),
    ("all_reduce", "reduce_op"),
    ("all_reduce", "operation"),
    ("all_reduce", "order"),
    ("broadcast", "size"),
    ("broadcast", "root"),
    ("broadcast", "dtype"),
    ("reduce", "root"),
    ("all_gather", "size"),
    ("all_gather_into_tensor", "size"),
    ("reduce_scatter_tensor", "size"),
    ("all_to_all_single", "size"),
    ("gather", "root"),
    ("send_recv", "size"),
    ("send_recv", "dtype"),
)


@family
def generate() -> Iterator[Case]:
    """Local misuse in warm sets; misuse between ranks in sets of their own."""
    for kind, op in _LOCAL.items():
        for size in (2, 3):
            clause = "LA-02" if kind in _SHARED else "MI-01"
            yield Case(
                f"misuse/{op}/{kind}/ws{size}",
                "misuse",
                clause,
                "refused_here",
                size,
                {"op": op, "kind": kind},
                Tier.SMOKE if size == 2 else Tier.STANDARD,
            )
    for kind in _ALONE:
        yield Case(
            f"misuse/{_LOCAL[kind]}/{kind}/alone/ws2",
            "misuse",
            "MI-01",
            "refused_alone",
            2,
            {"op": _LOCAL[kind], "kind": kind},
            isolation="fresh",
            setup={"cost_s": 0.5},
        )
    for op, kind in _CROSS:
        for size in (2, 3, 5) if op == "all_reduce" else (2,):
            yield Case(
                f"misuse/{op}/{kind}/ws{size}",
                "misuse",
                "MI-02",
                "refused_everywhere",
                size,
                {"op": op, "kind": f"{kind}_differs", "differs": kind},
                Tier.FULL if size > 4 else Tier.STANDARD,
                isolation="fresh",
                setup={"op_timeout_s": _TIMEOUT_S, "cost_s": 3.0},
            )
    yield Case(
        "misuse/all_reduce/then_new_group/ws2",
        "misuse",
        "MI-03",
        "works_again",
        2,
        {"op": "all_reduce", "kind": "then_new_group", "differs": "size"},
        isolation="fresh",
        setup={"op_timeout_s": _TIMEOUT_S, "cost_s": 3.0},
    )


@body
def refused_here(context: Context) -> None:
    """The wrong call raises on every rank without waiting for anyone."""
    context.require_support("all_reduce" if context.op != "send_recv" else "send_recv")
    _, call, words = _local(context)[context.dims["kind"]]
    context.refused(call, context.dims["kind"].replace("_", " "), words, limit_s=context.op_timeout_s / 2)


@body
def refused_alone(context: Context) -> None:
    """Only the last rank calls, wrongly, while the others are held: it must be told without their coming."""
    context.require_support("all_reduce")
    if context.rank == context.size - 1:
        _, call, words = _local(context)[context.dims["kind"]]
        context.refused(call, context.dims["kind"].replace("_", " "), words, limit_s=context.op_timeout_s / 4)
    else:
        context.note(bystander=True)
    context.meet("told")


def _mismatched(context: Context) -> Callable[[], Any]:
    """This rank's call; rank 0's differs from the others' in one thing."""
    odd, n, device, differs = context.rank == 0, context.size, context.device, context.dims["differs"]
    numel = {"size": 5 if odd else 3, "size_large": 100_003 if odd else 90_001}.get(differs, 4)
    dtype = torch.float64 if differs == "dtype" and odd else torch.float32
    value = torch.ones(numel, dtype=dtype, device=device)
    root = 0 if differs != "root" or odd else 1
    reduce_op = dist.ReduceOp.MAX if differs == "reduce_op" and odd else dist.ReduceOp.SUM

    def order() -> None:
        small, large = torch.ones(3, device=device), torch.ones(50, device=device)
        for each in (small, large) if odd else (large, small):
            dist.all_reduce(each)

    def message() -> None:
        if context.rank < 2:
            dist.send(value, 1) if odd else dist.recv(value, 0)

    if differs == "operation":
        return lambda: dist.all_reduce(value) if odd else dist.broadcast(value, src=1)
    if differs == "order":
        return order
    lists = [torch.zeros(numel, dtype=dtype, device=device) for _ in range(n)]
    joined = torch.zeros(numel * n, dtype=dtype, device=device)
    return {
        "all_reduce": lambda: dist.all_reduce(value, reduce_op),
        "broadcast": lambda: dist.broadcast(value, src=root),
        "reduce": lambda: dist.reduce(value, dst=root),
        "all_gather": lambda: dist.all_gather(lists, value),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(joined, value),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(value, joined),
        "all_to_all_single": lambda: dist.all_to_all_single(joined.clone(), joined),
        "gather": lambda: dist.gather(value, lists if context.rank == root else None, dst=root),
        "send_recv": message,
    }[context.op]


_WORDS = {
    "size": ("size", "numel", "element", "shape", "count", "mismatch"),
    "dtype": ("type", "mismatch"),
    "operation": ("mismatch", "operation", "different", "collective"),
    "order": ("mismatch", "order", "size", "element"),
    "reduce_op": ("mismatch", "reduce", "op"),
    "root": ("root", "mismatch", "rank"),
}


@body
def refused_everywhere(context: Context) -> None:
    """Each rank is told, within the timeout. The sender of a message that does not fit may be done already."""
    context.require_support("all_reduce" if context.op != "send_recv" else "send_recv")
    differs = context.dims["differs"].removesuffix("_large")
    call = _mismatched(context)
    if context.op == "send_recv" and context.rank == 0:
        context.note(bystander=True)
        try:
            call()
        except RuntimeError as error:
            context.note(refused_with=str(error)[:300])
        return
    context.refused(call, f"{context.op} whose {differs.replace('_', ' ')} differs between ranks", _WORDS[differs])


@body
def works_again(context: Context) -> None:
    """Whatever the mismatch did, a new group adds up right."""
    context.require_support("all_reduce")
    try:
        _mismatched(context)()
    except RuntimeError as error:
        context.note(refused_with=str(error)[:300])
    context.meet("after the mismatch")
    value = torch.ones(7, device=context.device)
    dist.all_reduce(value, group=context.fresh_group())
    context.expect(bool((value == context.size).all()), f"the new group's sum is {value[0].item()}")
