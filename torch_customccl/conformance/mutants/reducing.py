"""Reductions of flat tensors in rank order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

_RED: Any = dist.ReduceOp.RedOpType
_LOW = (torch.float16, torch.bfloat16)


def op_name(op: Any) -> str:
    """The reduce op as text, the same on every rank."""
    return str(op.op if hasattr(op, "op") else op) + (str(_factor(op)) if op == _RED.PREMUL_SUM else "")


def combine(flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
    """All tensors combined from the first to the last; 16-bit floats accumulate in 32 bits."""
    kind = op.op if hasattr(op, "op") else op
    dtype = flats[0].dtype
    if dtype == torch.bool:
        return _logical(flats, kind)
    total = _ordered(_widened(flats[0]), kind, dtype)
    for flat in flats[1:]:
        total = _pair(total, _ordered(_widened(flat), kind, dtype), kind)
    if kind == _RED.AVG:
        total = total / len(flats)
    if kind == _RED.PREMUL_SUM:
        total = total * _factor(op)
    return _ordered(total, kind, dtype).to(dtype)


def _ordered(flat: torch.Tensor, kind: Any, dtype: torch.dtype) -> torch.Tensor:
    """64 unsigned bits as a signed number of the same order, and back."""
    return flat ^ torch.iinfo(torch.int64).min if dtype == torch.uint64 and kind in (_RED.MIN, _RED.MAX) else flat


def _widened(flat: torch.Tensor) -> torch.Tensor:
    if flat.dtype in _LOW:
        return flat.float()
    if flat.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return flat.to(torch.int64)
    return flat.clone()


def _pair(left: torch.Tensor, right: torch.Tensor, kind: Any) -> torch.Tensor:
    if kind in (_RED.SUM, _RED.AVG, _RED.PREMUL_SUM):
        return left + right
    if kind == _RED.PRODUCT:
        return left * right
    if kind == _RED.MIN:
        return torch.minimum(left, right)
    if kind == _RED.MAX:
        return torch.maximum(left, right)
    if left.dtype.is_floating_point or left.dtype.is_complex:
        raise ValueError(f"backend reference does not support reduce op {kind} of dtype {left.dtype}")
    return {_RED.BAND: torch.bitwise_and, _RED.BOR: torch.bitwise_or, _RED.BXOR: torch.bitwise_xor}[kind](left, right)


def _logical(flats: Sequence[torch.Tensor], kind: Any) -> torch.Tensor:
    stack = torch.stack(list(flats))
    if kind in (_RED.SUM, _RED.MAX, _RED.BOR):
        return stack.any(0)
    if kind in (_RED.PRODUCT, _RED.MIN, _RED.BAND):
        return stack.all(0)
    if kind == _RED.BXOR:
        return stack.sum(0) % 2 == 1
    raise ValueError(f"backend reference does not support reduce op {kind} of dtype torch.bool")


def _factor(op: Any) -> float:
    state = op.__getstate__()
    return float(state[1])
