"""Tensors beyond 2^31 elements and 4 GiB. Opt-in: only the large tier or a case pattern runs them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist

from ..context import Context
from ..environment import machine
from ..model import Case, CheckFailedError, Tier, Verdict
from ..registry import body, family

_OVER = (1 << 31) + 12_345


@family
def generate() -> Iterator[Case]:
    """More than 2^31 bytes-sized elements; more than 4 GiB of 8-byte ones."""
    setup = {"op_timeout_s": 60.0, "deadline_s": 180.0, "cost_s": 60.0}
    for op in ("broadcast", "all_reduce"):
        yield Case(
            f"large/{op}/elements/ws2",
            "large",
            "SZ-02",
            "large",
            2,
            {"op": op, "numel": _OVER, "dtype": "u8", "kind": "elements"},
            Tier.LARGE,
            "fresh",
            setup,
        )
        yield Case(
            f"large/{op}/bytes/ws2",
            "large",
            "SZ-02",
            "large",
            2,
            {"op": op, "numel": (1 << 29) + 77, "dtype": "i64", "kind": "bytes"},
            Tier.LARGE,
            "fresh",
            setup,
        )


@body
def large(context: Context) -> None:
    """A slowly changing pattern; start, end and places around powers of two are compared, then all of it."""
    dtype = torch.uint8 if context.dims["dtype"] == "u8" else torch.int64
    numel = int(context.dims["numel"])
    need = numel * dtype.itemsize * context.size * 2 / 2**30
    if machine()["ram_gib"] < 1.2 * need:
        raise CheckFailedError(Verdict.NOT_APPLICABLE, f"needs {1.2 * need:.0f} GiB of memory")
    period = torch.arange(101, dtype=dtype)
    value = period.repeat(numel // 101 + 1)[:numel]
    if context.op == "broadcast" and context.rank:
        value.zero_()
    factor = 1
    if context.op == "broadcast":
        dist.broadcast(value, src=0)
    else:
        dist.all_reduce(value)
        factor = context.size
    for start in range(0, numel, 101 << 20):
        piece = value[start : start + (101 << 20)]
        whole = piece[: len(piece) // 101 * 101].view(-1, 101)
        bad = (whole != period * factor).any(1)
        if bool(bad.any()):
            at = start + 101 * int(bad.nonzero()[0])
            raise CheckFailedError(Verdict.WRONG_RESULT, f"wrong near element {at} of {numel}: got {value[at].item()}")
