"""Operations inside the coalescing manager: several at once, of different sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier, Verdict
from ..registry import body, family

_ROWS = (
    ("mixed_sizes", "coalesced_many", "all_reduce_coalesced", (2, 3, 5)),
    ("with_device", "coalesced_device", "all_reduce_coalesced", (2,)),
    ("same_bits", "coalesced_bits", "all_reduce_coalesced", (3,)),
    ("gathered", "coalesced_joined", "all_gather_coalesced", (2, 3)),
    ("scattered", "coalesced_joined", "reduce_scatter_coalesced", (2, 3)),
)
_NUMELS = (1, 7, 1000, 3)


@family
def generate() -> Iterator[Case]:
    """One case per row and world size."""
    for name, function, op, sizes in _ROWS:
        for size in sizes:
            dims = {"op": op, "kind": f"coalesced/{name}", "words": "coalescing"}
            tier = Tier.FULL if size > 4 else Tier.STANDARD
            yield Case(f"coalesced/{name}/ws{size}", "capability", "CO-01", function, size, dims, tier)


def _all_at_once(call: Callable[..., Any], *columns: list[torch.Tensor], device: torch.device | None = None) -> None:
    with dist._coalescing_manager(device=device, async_ops=True) as manager:
        for arguments in zip(*columns, strict=True):
            call(*arguments)
    manager.wait()


def _same(context: Context, got: torch.Tensor, want: torch.Tensor, index: int) -> None:
    told = f"tensor {index}: got {got[:4].tolist()}, expected {want[:4].tolist()}"
    context.expect(torch.equal(got.cpu(), want), told, Verdict.WRONG_RESULT)


def _all_reduced(context: Context, device: torch.device | None) -> None:
    values = [
        torch.full((numel,), float(context.rank + index), device=context.device) for index, numel in enumerate(_NUMELS)
    ]
    _all_at_once(dist.all_reduce, values, device=device)
    for index, value in enumerate(values):
        want = float(sum(rank + index for rank in range(context.size)))
        _same(context, value, torch.full_like(value, want, device="cpu"), index)


@body
def coalesced_many(context: Context) -> None:
    """Four tensors of different sizes in one coalesced all_reduce."""
    _all_reduced(context, None)


@body
def coalesced_device(context: Context) -> None:
    """The same through startCoalescing and endCoalescing of the backend."""
    try:
        _all_reduced(context, torch.device(context.device))
    finally:
        group: Any = dist.group.WORLD
        dist.distributed_c10d._world.pg_coalesce_state.pop(group, None)


@body
def coalesced_bits(context: Context) -> None:
    """Random floats: replicas that add up their gradients this way must hold the same bits, too."""
    generator = torch.Generator().manual_seed(2000 + context.rank)
    values = [torch.randn(numel, generator=generator).to(context.device) for numel in (1000, 40_009)]
    _all_at_once(dist.all_reduce, values)
    raw = b"".join(value.cpu().numpy().tobytes() for value in values)
    for peer, theirs in enumerate(context.exchange("bits", raw)):
        told = f"ranks {context.rank} and {peer} hold different bits"
        context.expect(theirs == raw, told, Verdict.WRONG_RESULT)


@body
def coalesced_joined(context: Context) -> None:
    """Four tensors of different sizes in one coalesced all_gather_into_tensor or reduce_scatter_tensor."""
    n, me, gathers = context.size, context.rank, context.op == "all_gather_coalesced"

    def given(rank: int, index: int) -> torch.Tensor:
        numel = _NUMELS[index] * (1 if gathers else n)
        return torch.arange(numel, dtype=torch.float32) + 10_000 * rank + 100_000 * index

    inputs = [given(me, index).to(context.device) for index in range(len(_NUMELS))]
    outputs = [torch.zeros(numel * (n if gathers else 1), device=context.device) for numel in _NUMELS]
    _all_at_once(dist.all_gather_into_tensor if gathers else dist.reduce_scatter_tensor, outputs, inputs)
    for index, output in enumerate(outputs):
        everyone = [given(rank, index) for rank in range(n)]
        want = torch.cat(everyone) if gathers else torch.stack(everyone).sum(0).reshape(n, -1)[me]
        _same(context, output, want, index)
