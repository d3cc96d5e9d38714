"""Memory layouts by name: each lays the same logical elements out in another way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .guarded import Guarded

Geometry = tuple[tuple[int, ...], tuple[int, ...]]  # shape, stride


@dataclass(frozen=True)
class Layout:
    """`geometry(count)` gives shape and stride of a tensor of `count` elements; count must be a multiple of 12."""

    name: str
    geometry: Callable[[int], Geometry]
    shift: int = 0

    def holding(self, values: Tensor, dense: bool = False) -> Guarded:
        """`values` in logical order; `dense` keeps the shape and drops the strides."""
        shape, stride = self.geometry(values.numel())
        return Guarded.holding(values, shape, None if dense else stride, self.shift)

    def poisoned(self, count: int, dtype: torch.dtype, dense: bool = False) -> Guarded:
        shape, stride = self.geometry(count)
        return Guarded(shape, dtype, None if dense else stride, self.shift)


def _channels_last(count: int) -> Geometry:
    shape = (2, 3, count // 12, 2)
    return shape, torch.empty(shape).to(memory_format=torch.channels_last).stride()


LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout("contiguous", lambda count: ((count,), (1,))),
        Layout("misaligned", lambda count: ((count,), (1,)), shift=1),
        Layout("stride 2", lambda count: ((count,), (2,))),
        Layout("rows with gaps", lambda count: ((count // 4, 4), (7, 1))),
        Layout("columns with gaps", lambda count: ((count // 4, 4), (1, count // 4 + 3)), shift=3),
        Layout("transposed", lambda count: ((count // 3, 3), (1, count // 3))),
        Layout("channels last", _channels_last),
        Layout("permuted with gaps", lambda count: ((3, count // 12, 4), (5, 17, 1))),
    )
}
