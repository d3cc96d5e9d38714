"""The lists that cases are made of: dtypes, reduce ops, layouts. To add one, add one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True)
class DType:
    """A dtype with what it can carry exactly."""

    name: str
    torch: torch.dtype
    kind: str
    """bool, int, uint, float, complex or fp8."""
    sum_limit: int
    """Largest integer such that every integer up to it is exact."""
    words: tuple[str, ...]
    """How error messages may call it."""

    @property
    def itemsize(self) -> int:
        return self.torch.itemsize


def _dtype(name: str, dtype: torch.dtype, kind: str, limit: int, *words: str) -> DType:
    return DType(name, dtype, kind, limit, (str(dtype).removeprefix("torch."), *words))


DTYPES: dict[str, DType] = {
    row.name: row
    for row in (
        _dtype("bool", torch.bool, "bool", 1, "bool"),
        _dtype("u8", torch.uint8, "uint", 255, "byte"),
        _dtype("i8", torch.int8, "int", 127, "char"),
        _dtype("i16", torch.int16, "int", 32767, "short"),
        _dtype("i32", torch.int32, "int", 1 << 20, "int"),
        _dtype("i64", torch.int64, "int", 1 << 40, "long"),
        _dtype("u16", torch.uint16, "uint", 65535, "uint16"),
        _dtype("u32", torch.uint32, "uint", 1 << 20, "uint32"),
        _dtype("u64", torch.uint64, "uint", 1 << 40, "uint64"),
        _dtype("f16", torch.float16, "float", 2048, "half"),
        _dtype("bf16", torch.bfloat16, "float", 256, "bfloat16"),
        _dtype("f32", torch.float32, "float", 1 << 20, "float"),
        _dtype("f64", torch.float64, "float", 1 << 40, "double"),
        _dtype("c64", torch.complex64, "complex", 1 << 20, "complexfloat", "complex"),
        _dtype("c128", torch.complex128, "complex", 1 << 40, "complexdouble", "complex"),
        _dtype("fp8e4m3", torch.float8_e4m3fn, "fp8", 8, "float8"),
        _dtype("fp8e5m2", torch.float8_e5m2, "fp8", 4, "float8"),
    )
}


@dataclass(frozen=True)
class ReduceRow:
    """A reduce op and the kinds of dtype the contract gives it a meaning for."""

    name: str
    kinds: frozenset[str]
    make: Callable[[], object]


_ALL = frozenset({"bool", "int", "uint", "float", "complex"})
_REAL = frozenset({"bool", "int", "uint", "float"})
_BITS = frozenset({"bool", "int", "uint"})
PREMUL_FACTOR = 0.5


def _premul() -> object:
    return dist.ReduceOp.PREMUL_SUM(PREMUL_FACTOR)


REDUCE_OPS: dict[str, ReduceRow] = {
    row.name: row
    for row in (
        ReduceRow("sum", _ALL, lambda: dist.ReduceOp.SUM),
        ReduceRow("product", _REAL, lambda: dist.ReduceOp.PRODUCT),
        ReduceRow("min", _REAL, lambda: dist.ReduceOp.MIN),
        ReduceRow("max", _REAL, lambda: dist.ReduceOp.MAX),
        ReduceRow("avg", frozenset({"float", "complex"}), lambda: dist.ReduceOp.AVG),
        ReduceRow("band", _BITS, lambda: dist.ReduceOp.BAND),
        ReduceRow("bor", _BITS, lambda: dist.ReduceOp.BOR),
        ReduceRow("bxor", _BITS, lambda: dist.ReduceOp.BXOR),
        ReduceRow("premul_sum", frozenset({"float"}), _premul),
    )
}


@dataclass(frozen=True)
class Layout:
    """How the elements of a tensor lie in memory.

    ``shape(numel)`` picks a logical shape of about that many elements; ``strides(shape)`` gives strides in elements.
    """

    name: str
    shape: Callable[[int], tuple[int, ...]]
    strides: Callable[[tuple[int, ...]], tuple[int, ...]]
    offset: int = 0
    only_rank: int | None = None
    """Only this rank has the layout; the others are contiguous."""

    @property
    def dense(self) -> bool:
        return self.name in ("contiguous", "offset", "zero_dim", "empty", "empty_dim")


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous tensor of this shape."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _flat(numel: int) -> tuple[int, ...]:
    return (numel,)


def _plane(numel: int) -> tuple[int, ...]:
    return (max(2, numel // 5), 5)


def _image(numel: int) -> tuple[int, ...]:
    return (max(1, numel // 24), 3, 4, 2)


def _channels_last(shape: tuple[int, ...]) -> tuple[int, ...]:
    _, channels, height, width = shape
    return (channels * height * width, 1, width * channels, channels)


LAYOUTS: dict[str, Layout] = {
    row.name: row
    for row in (
        Layout("contiguous", _flat, row_major),
        Layout("offset", _flat, row_major, offset=3),
        Layout("stride2", _flat, lambda shape: (2,)),
        Layout("column", _plane, lambda shape: (shape[1] * 3, 3)),
        Layout("transposed", _plane, lambda shape: (1, shape[0])),
        Layout("channels_last", _image, _channels_last),
        Layout("channels_last_rank0", _image, _channels_last, only_rank=0),
        Layout("zero_dim", lambda numel: (), row_major),
        Layout("empty", lambda numel: (0,), row_major),
        Layout("empty_dim", lambda numel: (2, 0, 3), row_major),
    )
}
