"""Planted bugs in what is seldom looked at: a fraction, a failure's future, a second group, what comes after the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from .reducing import combine
from .reference import ReferenceGroup

_RED: Any = dist.ReduceOp.RedOpType


class TruncatesAverage(ReferenceGroup):
    """An average of floats is a whole number."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        total = super().reduced(flats, op)
        return total.trunc() if op == _RED.AVG and total.is_floating_point() else total


class WholeFactor(ReferenceGroup):
    """The factor of PREMUL_SUM is an integer."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        if op == _RED.PREMUL_SUM:
            return combine(flats, _RED.SUM) * int(op.__getstate__()[1])
        return super().reduced(flats, op)
