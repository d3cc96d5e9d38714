"""Planted bugs that put wrong values where the result belongs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .peer_group import Flat
from .reducing import op_name
from .reference import ReferenceGroup
from .work import ReferenceWork


class IgnoresStride(ReferenceGroup):
    """Writes results as if every tensor were contiguous."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        torch.as_strided(target, (flat.numel(),), (1,)).copy_(flat)


class IgnoresOutputStride(ReferenceGroup):
    """all_gather writes as if its outputs were contiguous, when its input is."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        if inputs[0].is_contiguous():
            outputs = [[torch.as_strided(each, (each.numel(),), (1,)) for each in outputs[0]]]
        return super().allgather(outputs, inputs, opts)


class IgnoresOffset(ReferenceGroup):
    """Starts at the beginning of the storage, not of the view."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        guard = 256 // target.element_size()
        shift = guard if target.storage_offset() > guard else target.storage_offset()
        torch.as_strided(target, target.shape, target.stride(), shift).copy_(flat.reshape(target.shape))


class WrongDivisor(ReferenceGroup):
    """AVG divides by the number of ranks of the world less one."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        total = super().reduced(flats, op)
        average = op_name(op).endswith("AVG")
        return (total * len(flats) / max(len(flats) - 1, 1)).to(total.dtype) if average and len(flats) > 2 else total


class LosesNan(ReferenceGroup):
    """MIN and MAX keep the first of two numbers unless the second is less, or greater: a NaN is neither."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        name = op_name(op)
        if not name.endswith(("MIN", "MAX")) or not flats[0].is_floating_point():
            return super().reduced(flats, op)
        kept = flats[0]
        for flat in flats[1:]:
            kept = torch.where(flat < kept if name.endswith("MIN") else flat > kept, flat, kept)
        return kept


class DropsLastChunk(ReferenceGroup):
    """Copies whole chunks of 4096 bytes and forgets the rest of large tensors."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        chunk = 4096 // flat.element_size()
        if flat.numel() > chunk and flat.numel() % chunk:
            flat = flat.clone()
            flat[flat.numel() // chunk * chunk :] = 0
        super().write(target, flat)


class SwapsRanks(ReferenceGroup):
    """The first two ranks' parts change places in a gather."""

    def _fill(self, targets: Sequence[torch.Tensor], flats: Flat) -> Any:
        if len(flats) > 1 and flats[0].numel() == flats[1].numel():
            flats = [flats[1], flats[0], *flats[2:]]
        return super()._fill(targets, flats)


class WrongTag(ReferenceGroup):
    """All messages between two ranks are one queue, whatever their tags."""

    def tag_sent(self, tag: int) -> int:
        return 0


class LastBitDiffers(ReferenceGroup):
    """Each rank adds up in its own order, starting with itself."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        start = self.rank() % len(flats)
        return super().reduced([*flats[start:], *flats[:start]], op)


class GlobalRoot(ReferenceGroup):
    """Takes the group's root for a global rank: in a subgroup another rank's tensor is sent."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if self.size() < dist.get_world_size():
            opts.rootRank = (opts.rootRank + 1) % self.size()
        return super().broadcast(tensors, opts)


class NarrowCount:
    """Counts elements in 32 bits: gloo, with what is beyond 2^31 elements cut off."""

    def __new__(cls, store: dist.Store, rank: int, size: int, timeout: timedelta) -> Any:
        group = ReferenceGroup(dist.PrefixStore("mail", store), rank, size, timeout)
        inner: Any = dist.ProcessGroupGloo(store, rank, size, timeout)

        def broadcast(tensors: list[torch.Tensor], opts: Any) -> Any:
            numel = (tensors[0].numel() + (1 << 31)) % (1 << 32) - (1 << 31)
            return inner.broadcast([tensors[0].reshape(-1)[: max(numel, 0)]], opts)

        group.broadcast = broadcast  # type: ignore[method-assign]
        return group
