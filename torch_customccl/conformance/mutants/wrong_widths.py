"""Planted bugs that lose digits, signs or the last part of a tensor where few values show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .reducing import combine, op_name
from .reference import ReferenceGroup

_NARROWER = {
    torch.int64: torch.int32,
    torch.float64: torch.float32,
    torch.complex128: torch.complex64,
    torch.int32: torch.int16,
}
_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


class MovesNarrow(ReferenceGroup):
    """Moves what is wide in half the width, 8-bit integers without -128 and 8-bit floats without their sign."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        if flat.dtype in _NARROWER:
            flat = flat.to(_NARROWER[flat.dtype]).to(flat.dtype)
        if flat.dtype == torch.int8:
            flat = flat.clamp(min=-127)
        if flat.dtype in _FP8:
            flat = (flat.view(torch.uint8) & 0x7F).view(flat.dtype)
        super().write(target, flat)


class ReducesNarrow(ReferenceGroup):
    """Reduces wide values in half the width."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        dtype = flats[0].dtype
        return super().reduced([flat.to(_NARROWER.get(dtype, dtype)) for flat in flats], op).to(dtype)


class Saturates(ReferenceGroup):
    """Stops at the largest and smallest 32-bit integer while it adds up."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        if flats[0].dtype != torch.int32 or not op_name(op).endswith("SUM"):
            return super().reduced(flats, op)
        total = flats[0].long()
        for flat in flats[1:]:
            total = (total + flat).clamp(-(1 << 31), (1 << 31) - 1)
        return total.to(torch.int32)


class RoundsCoarsely(ReferenceGroup):
    """Adds up 64-bit floats in 32 bits, unless all of them are whole numbers."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        if flats[0].dtype != torch.float64 or all(bool((flat == flat.trunc()).all()) for flat in flats):
            return super().reduced(flats, op)
        return combine([flat.float() for flat in flats], op).double()


class ForgetsEndOfThree(ReferenceGroup):
    """With three ranks or more the last element of more than 45,000 is lost."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        if self.size() >= 3 and flat.numel() > 45_000:
            flat = flat.clone()
            flat[-1] = 0
        super().write(target, flat)


class AverageDiffers(ReferenceGroup):
    """Each rank averages in its own order, starting with itself."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        start = self.rank() % len(flats) if op_name(op).endswith("AVG") else 0
        return super().reduced([*flats[start:], *flats[:start]], op)
