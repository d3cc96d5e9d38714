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


def _cast(values: torch.Tensor, dtype: DType) -> torch.Tensor:
    if dtype.kind == "complex":
        real = values.to(torch.float64)
        return torch.complex(real, -(real + 1)).to(dtype.torch)
    return values.to(dtype.torch)


def transport_values(rank: int, slot: int, numel: int, dtype: DType) -> torch.Tensor:
    """Values for ops that only move data: the whole exact range of the dtype, signs included."""
    raw = mixed(rank, slot, numel)
    if dtype.kind == "bool":
        return (raw & 4) != 0
    if dtype.kind == "fp8":
        return ((raw >> 3) % 120).to(torch.uint8).view(dtype.torch)
    limit = min(dtype.sum_limit, 1 << 22)
    if dtype.kind in ("uint",):
        return (raw % (limit + 1)).to(dtype.torch)
    return _cast(raw % (2 * limit) - limit, dtype)


def special_floats(rank: int, numel: int, dtype: DType) -> torch.Tensor:
    """NaN, infinities, both zeros, denormals and ordinary numbers, in an order that depends on the rank."""
    tiny = torch.finfo(dtype.torch).tiny
    pool = torch.tensor(
        [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, tiny / 2, -tiny / 4, 1.5, -2.25], dtype=torch.float64
    )
    return pool[mixed(rank, 0, numel) % len(pool)].to(dtype.torch)


def reduce_inputs(rank: int, slot: int, numel: int, dtype: DType, reduce_op: str, size: int) -> torch.Tensor:
    """One rank's input of a reduction, chosen so that the result is exact in the dtype in any order."""
    raw = mixed(rank, slot, numel)
    if dtype.kind == "bool":
        return (raw & 3) != (0 if reduce_op in ("band", "min", "product") else 1)
    if reduce_op in ("band", "bor", "bxor"):
        return _cast(raw % (min(dtype.sum_limit, 1 << 20) + 1), dtype)
    if reduce_op in ("min", "max"):
        low = 0 if dtype.kind == "uint" else dtype.sum_limit // 2
        return _cast(raw % dtype.sum_limit - low, dtype)
    if reduce_op == "product":
        few = (raw + rank) % 3 == 0
        sign = 1 if dtype.kind == "uint" else 1 - 2 * ((raw >> 7) & 1)
        return _cast(torch.where(few, 2, 1) * sign, dtype)
    factor = {"avg": size, "premul_sum": int(PREMUL_FACTOR)}.get(reduce_op, 1)
    span = max(2, min(dtype.sum_limit, 1 << 20) // (2 * size * factor) - 1)
    low = 0 if dtype.kind == "uint" else span // 3
    scale = size if reduce_op == "avg" else 1
    return _cast((raw % span - low) * scale, dtype)


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
        return (stack.amin(0) if reduce_op == "min" else stack.amax(0)).to(dtype.torch)
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
