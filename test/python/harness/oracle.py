"""Inputs and expected values as formulas of (rank, index, dtype); no backend is ever the judge of another.

Every value differs per position and per rank, so a wrong offset, stride or order shows. Reductions are exact: floats
and complex numbers are small integers or powers of two, integers use all their bits and wrap as their type does.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, reduce

import numpy as np
import torch
from torch import Tensor
from torch.distributed import ReduceOp

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
INTEGERS = SIGNED + UNSIGNED
FLOATS8 = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz)
REDUCIBLE = (torch.bool, *INTEGERS, *FLOATS, *COMPLEX)
OPAQUE = (torch.float8_e8m0fnu, torch.float4_e2m1fn_x2)
MOVABLE = (*REDUCIBLE, *FLOATS8, *OPAQUE)

SUM, PRODUCT, MIN, MAX, AVG = ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.AVG
BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
REDUCE_OPS = (SUM, PRODUCT, MIN, MAX, AVG, *BITWISE)

# Around the places where an implementation changes its mind: nothing, one element, one cache line with a flag in it,
# 64 KiB, more than a chunk. Counts of float32; none of the larger ones is a multiple of 3.
COUNTS = (0, 1, 5, 11, 12, 13, 14, 15, 1000, 16383, 16384, 16385)
LARGE_COUNT = 3 * 1024 * 1024 // 4 + 1


def is_defined(op: ReduceOp.RedOpType, dtype: torch.dtype) -> bool:
    """The table of csrc/base/reduce_op.h in the tests' own words."""
    if dtype == torch.bool:
        return op != AVG
    if dtype in INTEGERS:
        return True
    if dtype in OPAQUE:
        return False
    if dtype in COMPLEX:
        return op in (SUM, PRODUCT, AVG)
    return op not in BITWISE


@lru_cache(maxsize=64)
def hashes(rank: int, count: int, salt: int = 0) -> Tensor:
    """`count` well mixed 32-bit numbers as int64."""
    mixed = torch.arange(1, count + 1, dtype=torch.int64) * 0x9E3779B1 + (rank + 1) * 0x85EBCA77 + salt * 0xC2B2AE3D
    mixed &= 0xFFFFFFFF
    mixed ^= mixed >> 15
    mixed = (mixed * 0x2C1B3C6D) & 0xFFFFFFFF
    mixed ^= mixed >> 12
    mixed = (mixed * 0x297A2D39) & 0xFFFFFFFF
    return mixed ^ (mixed >> 15)


def bits(rank: int, count: int, dtype: torch.dtype, salt: int = 0) -> Tensor:
    """Arbitrary bit patterns, NaN and infinities among them: what is only moved must arrive bit for bit."""
    if dtype == torch.bool:
        return (hashes(rank, count, salt) & 1).to(torch.bool)
    size = dtype.itemsize
    words = hashes(rank, (count * size + 3) // 4, salt).to(torch.uint32)
    return words.view(torch.uint8)[: count * size].view(dtype).clone()


def operand(rank: int, count: int, dtype: torch.dtype, op: ReduceOp.RedOpType, size: int, salt: int = 0) -> Tensor:
    """What `rank` of `size` brings into a reduction."""
    if dtype in INTEGERS and op != AVG:
        return bits(rank, count, dtype, salt)
    mixed = hashes(rank, count, salt)
    if dtype == torch.bool:
        return (mixed % 5 > 0) if op in (PRODUCT, MIN, ReduceOp.BAND) else (mixed % 5 == 0)
    if op == PRODUCT:
        return _factors(mixed, dtype)
    small = mixed & 31 if dtype in UNSIGNED else (mixed & 31) - 15
    if dtype in (torch.int8, torch.uint8):
        small = small % 4
    if dtype in FLOATS8:
        small = mixed % 3 - 1
    if op == AVG:
        small = small * size
    if dtype in COMPLEX:
        return torch.complex(small.double(), ((mixed >> 8) & 15).double() * (size if op == AVG else 1)).to(dtype)
    return small.to(dtype)


def _factors(mixed: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype in COMPLEX:
        return torch.tensor([1, -1, 1j, -1j], dtype=torch.complex128)[mixed & 3].to(dtype)
    return torch.tensor([1.0, -1.0, 2.0, 0.5], dtype=torch.float64)[mixed & 3].to(dtype)


def reduced(
    ranks: Iterable[int], count: int, dtype: torch.dtype, op: ReduceOp.RedOpType, size: int, salt: int = 0
) -> Tensor:
    """What the reduction over `ranks` of their operands gives."""
    operands = [operand(rank, count, dtype, op, size, salt) for rank in ranks]
    if dtype == torch.bool:
        return torch.from_numpy(reduce(_BOOLEAN[op], [each.numpy() for each in operands]))
    if dtype in INTEGERS:
        total = reduce(_INTEGER[op], [each.numpy() for each in operands])
        return torch.from_numpy((total // len(operands)).astype(total.dtype) if op == AVG else total)
    wide = torch.stack([each.to(torch.complex128 if dtype in COMPLEX else torch.float64) for each in operands])
    if op == PRODUCT:  # not prod(): that starts from 1, which changes signs of complex zeros
        return reduce(torch.mul, wide).to(dtype)
    if op == MIN:
        return wide.amin(0).to(dtype)
    if op == MAX:
        return wide.amax(0).to(dtype)
    total = wide.sum(0)
    return (total / len(operands) if op == AVG else total).to(dtype)


_BOOLEAN = {
    SUM: np.logical_or,
    MAX: np.logical_or,
    ReduceOp.BOR: np.logical_or,
    PRODUCT: np.logical_and,
    MIN: np.logical_and,
    ReduceOp.BAND: np.logical_and,
    ReduceOp.BXOR: np.logical_xor,
}
_INTEGER = {
    SUM: np.add,
    AVG: np.add,
    PRODUCT: np.multiply,
    MIN: np.minimum,
    MAX: np.maximum,
    ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or,
    ReduceOp.BXOR: np.bitwise_xor,
}
