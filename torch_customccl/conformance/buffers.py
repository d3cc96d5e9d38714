"""Tensors inside guarded, poisoned memory: shows a byte written where none belongs."""

from __future__ import annotations

import torch

from .model import CheckFailedError, Verdict
from .tables import DType, Layout, row_major

GUARD_BYTES = 256
POISON = 0xA5


class GuardedTensor:
    """A tensor of a given layout in the middle of a larger buffer, and what that buffer must hold afterwards."""

    def __init__(
        self, name: str, shape: tuple[int, ...], layout: Layout, dtype: DType, rank: int = 0, device: str = "cpu"
    ) -> None:
        self.name = name
        own = layout.only_rank is None or layout.only_rank == rank
        strides = layout.strides(shape) if own and len(shape) == len(layout.strides(shape)) else row_major(shape)
        offset = layout.offset if own else 0
        span = offset + 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True) if extent > 0)
        nbytes = 2 * GUARD_BYTES + max(span, 1) * dtype.itemsize
        nbytes += -nbytes % dtype.itemsize
        self.raw = torch.full((nbytes,), POISON, dtype=torch.uint8, device=device)
        self._shape, self._strides = shape, strides
        self._offset = GUARD_BYTES // dtype.itemsize + offset
        self._dtype = dtype
        self.tensor = self._view(self.raw)
        self.before = self.raw.cpu().clone()

    def _view(self, raw: torch.Tensor) -> torch.Tensor:
        return torch.as_strided(raw.view(self._dtype.torch), self._shape, self._strides, self._offset)

    def fill(self, values: torch.Tensor) -> GuardedTensor:
        """Write logical values (flat, row-major) and take the result as the state before the call."""
        self.tensor.copy_(values.reshape(self._shape))
        self.before = self.raw.cpu().clone()
        return self

    def check(self, expected: torch.Tensor | None) -> None:
        """Compare bit by bit: logical elements with ``expected`` (None: unchanged), all other bytes with before."""
        want = self.before.clone()
        if expected is not None:
            self._view(want).copy_(expected.reshape(self._shape))
        got = self.raw.cpu().clone()
        if torch.equal(got, want):
            return
        inside = self._mask()
        differs = got != want
        if bool((differs & inside).any()):
            verdict = Verdict.WRONG_RESULT if expected is not None else Verdict.WRONG_SIDE_EFFECT
            extra = "; bytes outside the tensor were written too" if bool((differs & ~inside).any()) else ""
            raise CheckFailedError(verdict, self._describe(got, want, expected is None) + extra)
        self.check_around()

    def check_around(self) -> None:
        """No byte outside the tensor has changed; its elements may be anything."""
        outside = (self.raw.cpu() != self.before) & ~self._mask()
        if not bool(outside.any()):
            return
        at = int(outside.nonzero()[0])
        start, end = self._extent()
        where = "before it" if at < start else "after its end" if at >= end else "in a gap between its elements"
        raise CheckFailedError(
            Verdict.WRONG_SIDE_EFFECT,
            f"{self.name}: {int(outside.sum())} bytes outside the tensor were written ({where})",
        )

    def _flat(self, raw: torch.Tensor) -> torch.Tensor:
        """The logical elements of a raw buffer, copied bit by bit (a copy as bool would turn a 2 into a 1)."""
        dtype = torch.uint8 if self._dtype.kind == "bool" else self._dtype.torch
        view = torch.as_strided(raw.view(dtype), self._shape, self._strides, self._offset)
        return view.clone(memory_format=torch.contiguous_format).reshape(-1)

    def _mask(self) -> torch.Tensor:
        """True for each byte that belongs to an element."""
        width = self._dtype.itemsize
        mask = torch.zeros(self.before.shape, dtype=torch.bool)
        strides = (*(step * width for step in self._strides), 1)
        torch.as_strided(mask, (*self._shape, width), strides, self._offset * width).fill_(True)
        return mask

    def _extent(self) -> tuple[int, int]:
        item = self._dtype.itemsize
        last = sum((extent - 1) * step for extent, step in zip(self._shape, self._strides, strict=True) if extent > 0)
        return self._offset * item, (self._offset + last + 1) * item

    def _describe(self, got: torch.Tensor, want: torch.Tensor, unchanged: bool) -> str:
        width = self._dtype.itemsize
        left, right = (self._flat(raw) for raw in (got, want))
        rows = (left.view(torch.uint8).reshape(-1, width) != right.view(torch.uint8).reshape(-1, width)).any(1)
        first = int(rows.nonzero()[0])
        verb = "was changed" if unchanged else "is wrong"
        shown = [repr(side[first].item()) for side in (left, right)]
        return (
            f"{self.name} {verb}: {int(rows.sum())} of {len(rows)} elements, first at index {first}: "
            f"got {shown[0]}, expected {shown[1]}"
        )
