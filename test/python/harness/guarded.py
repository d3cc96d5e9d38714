"""Tensors inside larger buffers of poison: a write beside the tensor, or into the gaps of its strides, is seen."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

POISON = 0xA5
GUARD = 32  # elements of poison before and after


class Guarded:
    """A tensor of `shape` and `stride` (in elements, default contiguous) in the middle of poison."""

    def __init__(
        self, shape: Sequence[int], dtype: torch.dtype, stride: Sequence[int] | None = None, shift: int = 0
    ) -> None:
        stride = _contiguous(shape) if stride is None else list(stride)
        span = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        bytes_ = torch.full(((span + shift + 2 * GUARD) * dtype.itemsize,), POISON, dtype=torch.uint8)
        self._buffer = bytes_
        self.tensor = bytes_.view(dtype).as_strided(list(shape), stride, GUARD + shift)
        self._snapshot = bytes_.clone()

    @classmethod
    def holding(
        cls, values: Tensor, shape: Sequence[int] | None = None, stride: Sequence[int] | None = None, shift: int = 0
    ) -> Guarded:
        """`values` (one-dimensional) in logical order, in `shape` (default: one-dimensional)."""
        guarded = cls((values.numel(),) if shape is None else shape, values.dtype, stride, shift)
        guarded.tensor.copy_(values.reshape(guarded.tensor.shape))
        guarded._snapshot = guarded._buffer.clone()
        return guarded

    def check(self, expected: Tensor, case: str) -> None:
        """The tensor holds `expected` (in logical order) bit for bit, and nothing around it was written."""
        assert_same_bits(self.tensor, expected, case)
        inside = torch.zeros(self._buffer.numel() // self.tensor.element_size(), dtype=torch.bool)
        inside.as_strided(self.tensor.shape, self.tensor.stride(), self.tensor.storage_offset()).fill_(True)
        outside = self._buffer.view(inside.numel(), -1)[~inside]
        written = int((outside != POISON).sum())
        assert written == 0, f"{case}: {written} bytes beside the tensor or in its gaps were written"

    def check_unchanged(self, case: str) -> None:
        """Not one byte was written, neither inside nor outside."""
        changed = int((self._buffer != self._snapshot).sum())
        assert changed == 0, f"{case}: {changed} bytes of a tensor that is only read were changed"


def assert_same_bits(actual: Tensor, expected: Tensor, case: str) -> None:
    assert actual.dtype == expected.dtype, f"{case}: dtype {actual.dtype} where {expected.dtype} was expected"
    assert actual.numel() == expected.numel(), f"{case}: {actual.numel()} elements, expected {expected.numel()}"
    got, want = _elements(actual), _elements(expected)
    if torch.equal(got, want):
        return
    wrong = (got != want).any(1).nonzero().flatten()
    first = int(wrong[0])
    values = f"{actual.reshape(-1)[first].item()} where {expected.reshape(-1)[first].item()} was expected"
    raise AssertionError(f"{case}: {len(wrong)} of {len(got)} elements are wrong, the first at index {first}: {values}")


def _elements(tensor: Tensor) -> Tensor:
    """The bytes of each element, one row per element, in logical order."""
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    flat.copy_(tensor.detach().reshape(-1))
    return flat.view(torch.uint8).view(flat.numel(), flat.element_size())


def _contiguous(shape: Sequence[int]) -> list[int]:
    return [prod(max(1, n) for n in shape[i + 1 :]) for i in range(len(shape))]
