"""Object collectives: Python objects of different sizes and types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier, Verdict
from ..registry import body, family

_OPS = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list")


@family
def generate() -> Iterator[Case]:
    """Each object operation, from the first and from the last root, and with objects of several MiB."""
    for op in _OPS:
        words = "all_gather broadcast gather scatter send recv"
        large = {"op": op, "root": "first", "large": True, "words": words}
        yield Case(f"objects/{op}/large/ws2", "objects", "OB-01", "objects", 2, large)
        for size in (2, 3, 5):
            for root in ("first", "last"):
                if op == "all_gather_object" and root == "last":
                    continue
                smoke = size == 2 and root == "first"
                tier = Tier.SMOKE if smoke else Tier.FULL if size > 4 else Tier.STANDARD
                yield Case(
                    f"objects/{op}/{root}/ws{size}",
                    "objects",
                    "OB-01",
                    "objects",
                    size,
                    {"op": op, "root": root, "words": words},
                    tier,
                )


def _large_thing(rank: int) -> bytes:
    return bytes(range(rank, 251)) * 12_000


def _thing(rank: int) -> dict[str, Any]:
    return {
        "rank": rank,
        "text": "x" * (10**rank),
        "nested": [(rank, None), {"f": 0.5 * rank}],
        "big": 7 ** (50 * rank),
    }


@body
def objects(context: Context) -> None:
    """Send things whose sizes differ by rank; compare for equality."""
    root = 0 if context.dims["root"] == "first" else context.size - 1
    thing: Any = _large_thing if context.dims.get("large") else _thing
    mine, everyone = thing(context.rank), [thing(rank) for rank in range(context.size)]
    got: list[Any] = [None] * context.size
    if context.op == "all_gather_object":
        dist.all_gather_object(got, mine)
        want: list[Any] = everyone
    elif context.op == "gather_object":
        dist.gather_object(mine, got if context.rank == root else None, dst=root)
        want = everyone if context.rank == root else [None] * context.size
    elif context.op == "broadcast_object_list":
        got = list(everyone) if context.rank == root else got
        dist.broadcast_object_list(got, src=root)
        want = everyone
    elif context.op == "scatter_object_list":
        got = [None]
        dist.scatter_object_list(got, everyone if context.rank == root else None, src=root)
        want = [mine]
    else:
        got, want = _send(context, root, everyone)
    context.expect(got == want, f"{context.op}: got other objects", Verdict.WRONG_RESULT)


def _send(context: Context, root: int, everyone: list[Any]) -> tuple[list[Any], list[Any]]:
    target = 0 if root else context.size - 1
    if context.rank == root:
        dist.send_object_list(everyone, dst=target)
    elif context.rank == target:
        got: list[Any] = [None] * context.size
        dist.recv_object_list(got, src=root)
        return got, everyone
    else:
        context.note(bystander=True)
    return everyone, everyone
