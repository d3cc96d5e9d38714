"""Expected values: a formula of (rank, slot, index, dtype). Never another backend."""

from __future__ import annotations

import torch

from .tables import PREMUL_FACTOR, DType

_MIX_INDEX, _MIX_RANK, _MIX_SLOT = 2654435761, 40503001, 97561


def mixed(rank: int, slot: int, numel: int) -> torch.Tensor:
    """Scrambled non-negative int64 values that differ per position, per rank and per slot."""
    index = torch.arange(numel, dtype=torch.int64)
    value = (index + 1) * _MIX_INDEX + (rank + 1) * _MIX_RANK + (slot + 1) * _MIX_SLOT
    value = value ^ (value >> 15)
    value = (value * 40499) & 0x7FFFFFFFFFFF
    return value ^ (value >> 11)


def _bits(rank: int, slot: int, numel: int) -> torch.Tensor:
    """Scrambled int64 values of which every bit is used."""
    value = mixed(rank, slot, numel)
    return value ^ ((value * 40499) << 21)


_SAME_WIDTH = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _from_bits(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The low bits of each value as an element of the dtype."""
    return bits.to(_SAME_WIDTH[dtype.itemsize]).view(dtype)


def _finite(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Floats of any sign, mantissa and exponent; 1 where that would be an infinity or a NaN."""
    values = _from_bits(bits, dtype)
    return torch.where(values.isfinite(), values, torch.ones((), dtype=dtype))


def _cast(values: torch.Tensor, dtype: DType) -> torch.Tensor:
    if dtype.kind == "complex":
        real = values.to(torch.float64)
        return torch.complex(real, -(real + 1)).to(dtype.torch)
    return values.to(dtype.torch)


def transport_values(rank: int, slot: int, numel: int, dtype: DType) -> torch.Tensor:
    """Values for ops that only move data: all codes of the dtype, for floats of more than 8 bits all finite ones."""
    bits = _bits(rank, slot, numel)
    if dtype.kind == "bool":
        return (bits & 4) != 0
    if dtype.kind == "float":
        return _finite(bits, dtype.torch)
    if dtype.kind == "complex":
        part = dtype.torch.to_real()
        return torch.complex(_finite(bits, part), _finite(bits >> 7, part))
    if dtype.kind == "int":
        lowest = (torch.arange(numel) + rank + slot) % 13 == 3
        bits = torch.where(lowest, torch.iinfo(dtype.torch).min, bits)
    return _from_bits(bits, dtype.torch)


_NOT_FINITE = (float("nan"), float("inf"), -float("inf"))


def _drawn(pool: list[float], rank: int, numel: int, dtype: DType) -> torch.Tensor:
    return torch.tensor(pool, dtype=torch.float64)[mixed(rank, 0, numel) % len(pool)].to(dtype.torch)


def special_floats(rank: int, numel: int, dtype: DType) -> torch.Tensor:
    """NaN, infinities, both zeros, denormals and ordinary numbers, in an order that depends on the rank."""
    tiny = torch.finfo(dtype.torch).tiny
    return _drawn([*_NOT_FINITE, 0.0, -0.0, tiny / 2, -tiny / 4, 1.5, -2.25], rank, numel, dtype)


def special_operands(rank: int, numel: int, dtype: DType) -> torch.Tensor:
    """NaN, infinities, denormals and numbers whose reductions are the same in any order, by rank and position."""
    tiny = torch.finfo(dtype.torch).tiny
    return _drawn([*_NOT_FINITE, tiny / 2, -tiny / 4, 3.0, 1.5, -2.25], rank, numel, dtype)


def reduce_inputs(rank: int, slot: int, numel: int, dtype: DType, reduce_op: str, size: int) -> torch.Tensor:
    """One rank's input of a reduction, chosen so that the result is exact in the dtype in any order."""
    raw = mixed(rank, slot, numel)
    if dtype.kind == "bool":
        return (raw & 3) != (0 if reduce_op in ("band", "min", "product") else 1)
    whole = dtype.kind in ("int", "uint")
    if whole and reduce_op in ("band", "bor", "bxor", "min", "max"):
        return _from_bits(_bits(rank, slot, numel), dtype.torch)
    if reduce_op in ("min", "max"):
        return _cast(_halves(raw % dtype.sum_limit - dtype.sum_limit // 2, dtype), dtype)
    if reduce_op == "product":
        return _factors(rank, slot, numel, dtype, size)
    if whole:
        return _summands(rank, slot, numel, dtype, size)
    scale = size if reduce_op == "avg" else 1
    span = max(2, dtype.sum_limit // (2 * size * scale) - 1)
    return _cast(_halves((raw % span - span // 3) * scale, dtype), dtype)


def _halves(values: torch.Tensor, dtype: DType) -> torch.Tensor:
    """Half of whole numbers where that is exact: who takes floats for integers on the way loses it."""
    return values if dtype.kind in ("int", "uint") else values.double() / 2


def _factors(rank: int, slot: int, numel: int, dtype: DType, size: int) -> torch.Tensor:
    """At each position one rank has a number of nearly all the digits that fit; the others have 1 or 2, of any sign."""
    raw = mixed(rank, slot, numel)
    limit = dtype.sum_limit if dtype.kind == "float" else 1 << (8 * dtype.itemsize - 1)
    limit = min(limit, 1 << 46) >> 4
    sign = 1 if dtype.kind == "uint" else 1 - 2 * ((raw >> 7) & 1)
    mine = torch.arange(numel) % size == rank
    others = 1 + (raw >> 3) % 2 if rank < 3 else torch.ones_like(raw)
    return _cast(torch.where(mine, raw % limit + 1, others) * sign, dtype)


def _summands(rank: int, slot: int, numel: int, dtype: DType, size: int) -> torch.Tensor:
    """Integers whose sum is representable. Of three or more signed ones two leave the range before a third comes."""
    width = 8 * dtype.itemsize
    bits = _bits(rank, slot, numel)
    if dtype.kind == "uint" or size < 3:
        span = min((1 << width) // size, 1 << 62)
        return _cast((bits & ((1 << 62) - 1)) % span - (0 if dtype.kind == "uint" else span // 2), dtype)
    quarter, place = 1 << (width - 2), torch.arange(numel)
    turn = (place + rank) % size
    large = quarter + (bits & ((quarter >> 2) - 1))
    small = (bits & (quarter - 1)) % max(1, quarter // (2 * size))
    value = torch.where(turn < 2, large, torch.where(turn == 2, -large, small))
    return _cast(torch.where(place // size % 2 == 0, value, -value), dtype)


def reduce_expected(inputs: list[torch.Tensor], dtype: DType, reduce_op: str) -> torch.Tensor:
    """The reduction of all ranks' inputs, computed with integers or float64."""
    if dtype.kind == "bool":
        return _reduce_bool(inputs, reduce_op)
    wide = {"complex": torch.complex128, "float": torch.float64}.get(dtype.kind, torch.int64)
    stack = torch.stack([tensor.to(wide) for tensor in inputs])
    if reduce_op in ("sum", "avg", "premul_sum"):
        total = stack.sum(0)
        if reduce_op == "avg":
            total = total / len(inputs)
        if reduce_op == "premul_sum":
            total = total * PREMUL_FACTOR
        return total.to(dtype.torch)
    if reduce_op == "product":
        return stack.prod(0).to(dtype.torch)
    if reduce_op in ("min", "max"):
        order = torch.iinfo(torch.int64).min if dtype.name == "u64" else None
        stack = stack if order is None else stack ^ order
        result = stack.amin(0) if reduce_op == "min" else stack.amax(0)
        return (result if order is None else result ^ order).to(dtype.torch)
    result = stack[0]
    for other in stack[1:]:
        result = {"band": result & other, "bor": result | other, "bxor": result ^ other}[reduce_op]
    return result.to(dtype.torch)


def _reduce_bool(inputs: list[torch.Tensor], reduce_op: str) -> torch.Tensor:
    stack = torch.stack(inputs)
    if reduce_op in ("sum", "max", "bor", "avg"):
        return stack.any(0)
    if reduce_op in ("product", "min", "band"):
        return stack.all(0)
    return stack.sum(0) % 2 == 1
