"""Planted bugs of a corner: only large tensors, only one dtype, only the second of several, only numbers near zero."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .reference import ReferenceGroup
from .work import ReferenceWork

_MANY = 65_536


def _from_own(group: ReferenceGroup, flats: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same parts in another order on each rank: its own first."""
    own = group.rank() % len(flats)
    return [*flats[own:], *flats[:own]]


class ForgetsEndOfBf16(ReferenceGroup):
    """The last of more than 64 Ki bf16 elements is lost."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        if flat.dtype == torch.bfloat16 and flat.numel() > _MANY:
            flat = flat.clone()
            flat[-1] = 0
        super().write(target, flat)


class ManyBitsDiffer(ReferenceGroup):
    """Each rank adds up many elements in its own order, starting with itself."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        return super().reduced(_from_own(self, flats) if flats[0].numel() > _MANY else flats, op)


class CoalescedBitsDiffer(ReferenceGroup):
    """The same in a coalesced all_reduce of several tensors."""

    _several = False

    def allreduce_coalesced(
        self, tensors: list[torch.Tensor], opts: Any, what: str = "all_reduce_coalesced"
    ) -> ReferenceWork:
        self._several = len(tensors) > 1
        return super().allreduce_coalesced(tensors, opts, what)

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        return super().reduced(_from_own(self, flats) if self._several else flats, op)


class ReducesBf16InF16(ReferenceGroup):
    """Adds up bf16 in f16, whose largest number is 65504."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        if flats[0].dtype != torch.bfloat16:
            return super().reduced(flats, op)
        return super().reduced([flat.half() for flat in flats], op).bfloat16()


class FlushesDenormals(ReferenceGroup):
    """A result smaller than the smallest normal number becomes zero."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        total = super().reduced(flats, op)
        if not total.is_floating_point():
            return total
        return torch.where(total.abs() < torch.finfo(total.dtype).tiny, torch.zeros_like(total), total)


class ScratchesBystander(ReferenceGroup):
    """reduce adds up large tensors in place, on ranks that are not the root, too."""

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if tensors[0].numel() > _MANY:
            return self.allreduce_coalesced(tensors, opts, "reduce")
        return super().reduce(tensors, opts)


class GathersFirstOnly(ReferenceGroup):
    """Of several coalesced gathers only the first has its data."""

    def all_gather_single_coalesced(
        self,
        outputs: list[torch.Tensor],
        inputs: list[torch.Tensor],
        opts: Any = None,
        what: str = "all_gather_coalesced",
    ) -> ReferenceWork:
        given = [inputs[0], *(torch.zeros_like(each) for each in inputs[1:])]
        return super().all_gather_single_coalesced(outputs, given, opts, what)


class ScatterNeverEnds(ReferenceGroup):
    """Only scatter has no time limit."""

    def timeout_of(self, what: str) -> float:
        return 1e6 if what == "scatter" else super().timeout_of(what)


class LeaksDescriptors(ReferenceGroup):
    """Each broadcast opens a file and does not close it."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        os.open(os.devnull, os.O_RDONLY)
        return super().broadcast(tensors, opts)


class KeepsTensors(ReferenceGroup):
    """Each broadcast remembers its tensor for ever."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        self._kept = [*getattr(self, "_kept", ()), *tensors]
        return super().broadcast(tensors, opts)


class NamesNobody(ReferenceGroup):
    """monitored_barrier says how long it waited, but not for whom."""

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        try:
            super().monitored_barrier(timeout, wait_all_ranks)
        except dist.DistBackendError:
            raise dist.DistBackendError("[Rank 0]: the barrier timed out after 1.5 s, 1500 ms of rank 0") from None
