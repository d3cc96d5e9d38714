"""Groups: who takes part, in which order, made and destroyed how often, over which store."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..datacall import run_data_calls
from ..groupings import GROUPINGS
from ..model import Case, Tier, Verdict
from ..ops import OPS
from ..registry import body, family
from ..worker import init_group
from .data import fits

_OPS = (
    "broadcast",
    "all_reduce",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce_scatter_tensor",
    "all_to_all_single",
    "send_recv",
)


@family
def generate() -> Iterator[Case]:
    """Every operation in every grouping, then life and death of groups."""
    yield from _groupings()
    yield from _lives()


def _groupings() -> Iterator[Case]:
    for name, row in GROUPINGS.items():
        for op in _OPS:
            for size in (2, 3, 4, 5, 8):
                dims = {"op": op, "dtype": "i64", "numel": 37, "group": name, "root": "last", "kind": name}
                if name != "world" and size >= row.min_size and fits(OPS[op], size, dims):
                    smoke = size == 2 and op in ("all_reduce", "broadcast") and name in ("all", "single")
                    yield Case(
                        f"group/{op}/{name}/ws{size}",
                        "groups",
                        "GR-01",
                        "in_group",
                        size,
                        dims,
                        Tier.SMOKE if smoke else Tier.FULL if size > 4 else Tier.STANDARD,
                    )
    for op in ("all_reduce", "broadcast", "barrier"):
        yield Case(f"group/{op}/non_member/ws3", "groups", "GR-02", "non_member", 3, {"op": op, "kind": "non_member"})
    yield Case(
        "group/broadcast/global_root/ws3",
        "groups",
        "GR-01",
        "global_root",
        3,
        {"op": "broadcast", "kind": "global_root"},
    )
    yield Case("group/all_reduce/nested/ws4", "groups", "GR-01", "nested", 4, {"op": "all_reduce", "kind": "nested"})
    for size, tier in ((4, Tier.STANDARD), (8, Tier.FULL)):
        for how in ("by_size", "by_enumeration"):
            dims = {"op": "all_reduce", "kind": f"subgroups_{how}", "how": how}
            yield Case(f"groups/new_subgroups/{how}/ws{size}", "groups", "GR-06", "subgroups", size, dims, tier)


def _lives() -> Iterator[Case]:
    for store in ("file", "prefix", "tcp"):
        yield Case(
            f"groups/store/{store}/ws2",
            "groups",
            "GR-05",
            "over_store",
            2,
            {"op": "all_reduce", "kind": f"store_{store}", "store": store},
            isolation="fresh",
            setup={"init": False, "cost_s": 1.0, "op_timeout_s": 15.0, "deadline_s": 40.0},
        )
    for rounds, tier in ((10, Tier.SMOKE), (60, Tier.STANDARD), (1000, Tier.FULL)):
        yield Case(
            f"groups/reinit/{rounds}/ws2",
            "groups",
            "GR-04",
            "reinit",
            2,
            {"op": "all_reduce", "kind": "reinit", "rounds": rounds},
            tier,
            "fresh",
            setup={"init": False, "cost_s": rounds / 10, "deadline_s": max(20.0, rounds / 4)},
        )
    yield Case(
        "groups/many/ws2",
        "groups",
        "GR-04",
        "many_groups",
        2,
        {"op": "all_reduce", "kind": "many"},
        isolation="fresh",
        setup={"deadline_s": 20.0},
    )


@body
def in_group(context: Context) -> None:
    """The data check inside the grouping."""
    run_data_calls(context)


@body
def non_member(context: Context) -> None:
    """Rank 0 calls the operation on a group it is not in; the members' own call must be right."""
    group = dist.new_group([1, 2], backend=context.backend, timeout=timedelta(seconds=context.op_timeout_s))
    value = torch.full((6,), float(context.rank), device=context.device)
    calls: dict[str, Any] = {
        "all_reduce": lambda: dist.all_reduce(value, group=group),
        "barrier": lambda: dist.barrier(group=group),
        "broadcast": lambda: dist.broadcast(value, src=1, group=group),
    }
    call = calls[context.op]
    if context.rank == 0:
        context.note(bystander=True)
        try:
            call()
        except (ValueError, RuntimeError) as error:
            context.note(told=str(error)[:200])
    else:
        call()
    want = {"all_reduce": 3.0, "broadcast": 1.0, "barrier": float(context.rank)}[context.op]
    want = 0.0 if context.rank == 0 else want
    context.expect(
        bool((value == want).all()),
        f"rank {context.rank} holds {value[0].item()}, expected {want}",
        Verdict.WRONG_RESULT,
    )


@body
def global_root(context: Context) -> None:
    """In the group of ranks 1 and 2, src=2 means global rank 2 and group_src=0 means global rank 1."""
    group = dist.new_group([1, 2], backend=context.backend, timeout=timedelta(seconds=context.op_timeout_s))
    if context.rank == 0:
        context.note(bystander=True)
        return
    trials: list[tuple[dict[str, Any], int]] = [
        ({"src": 2}, 2),
        ({"group_src": 0}, 1),
        ({"src": 1}, 1),
        ({"group_src": 1}, 2),
    ]
    for arguments, want in trials:
        value = torch.full((5,), context.rank, dtype=torch.int32, device=context.device)
        dist.broadcast(value, group=group, **arguments)
        context.expect(
            bool((value == want).all()),
            f"broadcast({arguments}) gave rank {value[0].item()}'s tensor",
            Verdict.WRONG_RESULT,
        )


@body
def nested(context: Context) -> None:
    """World, then a half of it, then a half of that, interleaved."""
    timeout = timedelta(seconds=context.op_timeout_s)
    half = dist.new_group([0, 1, 2], backend=context.backend, timeout=timeout)
    quarter = dist.new_group([0, 1], backend=context.backend, timeout=timeout)
    groups: list[tuple[Any, int]] = [(dist.group.WORLD, 6)]
    groups += [(half, 3)] if context.rank < 3 else []
    groups += [(quarter, 1)] if context.rank < 2 else []
    works, values = [], []
    for group, _ in groups:
        values.append(torch.full((33,), float(context.rank), device=context.device))
        works.append(dist.all_reduce(values[-1], group=group, async_op=True))
    for work in works[::-1]:
        work.wait()
    for value, (_, want) in zip(values, groups, strict=True):
        context.expect(bool((value == want).all()), f"sum {value[0].item()}, expected {want}", Verdict.WRONG_RESULT)


@body
def subgroups(context: Context) -> None:
    """Pairs made by one call; each rank gets its own pair's group and all ranks the list of all groups."""
    seconds = timedelta(seconds=context.op_timeout_s)
    pairs = [[rank, context.size - 1 - rank] for rank in range(context.size // 2)]
    mine: Any
    if context.dims["how"] == "by_size":
        pairs = [[rank, rank + 1] for rank in range(0, context.size, 2)]
        by_size: Any = dist.new_subgroups
        mine, every = by_size(2, timeout=seconds)
    else:
        enumerated: Any = dist.new_subgroups_by_enumeration
        mine, every = enumerated(pairs, timeout=seconds)
    pair = next(pair for pair in pairs if context.rank in pair)
    context.expect(len(every) == len(pairs), f"{len(every)} groups, expected {len(pairs)}")
    value = torch.tensor([float(1 << context.rank)], device=context.device)
    dist.all_reduce(value, group=mine)
    want = sum(1 << rank for rank in pair)
    context.expect(value.item() == want, f"sum {value.item()} in the group of {pair}, expected {want}")


def _sum_of_ones(context: Context, group: Any = None) -> None:
    value = torch.ones(10, device=context.device)
    dist.all_reduce(value, group=group)
    context.expect(bool((value == context.size).all()), f"sum of ones is {value[0].item()}", Verdict.WRONG_RESULT)


@body
def over_store(context: Context) -> None:
    """Make the default group over the given kind of store."""
    kind = context.dims["store"]
    timeout = timedelta(seconds=context.op_timeout_s)
    store: dist.Store = context.store
    if kind == "file":
        store = dist.FileStore(f"{context.spec.directory}/store-of-case", context.size)
    elif kind == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = probe.getsockname()[1]
        port = int(context.exchange("port", str(free).encode())[0])
        store = dist.TCPStore("127.0.0.1", port, context.size, is_master=context.rank == 0)
    elif kind == "prefix":
        store = dist.PrefixStore("outer", dist.PrefixStore("inner", context.store))
    dist.init_process_group(context.backend, store=store, rank=context.rank, world_size=context.size, timeout=timeout)
    _sum_of_ones(context)
    dist.destroy_process_group()


@body
def reinit(context: Context) -> None:
    """Make the default group, use it, destroy it, again and again."""
    for round in range(context.dims["rounds"]):
        init_group(context.spec, context.rank, f"round{round}")
        _sum_of_ones(context)
        dist.destroy_process_group()


@body
def many_groups(context: Context) -> None:
    """Thirty groups alive at once, all used, in both directions."""
    groups = [context.fresh_group() for _ in range(30)]
    for group in [*groups, *groups[::-1]]:
        _sum_of_ones(context, group)
    for group in groups:
        dist.destroy_process_group(group)
    _sum_of_ones(context)
