"""What the operations of a Group take for a tensor: tensors, numpy arrays and other buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch

from torch_customccl._loader import load
from torch_customccl.group_arguments import listed

_to_tensor = load().tensor_of_buffer


def tensor_of(data: Any, *, output: bool = False) -> torch.Tensor:
    """`data` as a tensor that shares its memory. TypeError for what offers no memory, or none to write to; ValueError
    for tensors of other devices: for one that is "meta", torch's dispatcher would do nothing, and say nothing."""
    if not isinstance(data, torch.Tensor):
        return cast(torch.Tensor, _to_tensor(data, output))
    if not data.is_cpu:
        raise ValueError(f"customccl: a tensor on {data.device} was given; a Group works on CPU tensors")
    return data


def tensors_of(data: Sequence[Any], what: str, *, output: bool = False) -> list[torch.Tensor]:
    """tensor_of() of each."""
    return [tensor_of(each, output=output) for each in listed(data, what)]


def bytes_of(data: Any) -> torch.Tensor:
    """The elements of what tensor_of() takes, as bytes one behind the other."""
    tensor = tensor_of(data)
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        kind = "a quantized" if tensor.is_quantized else "a nested" if tensor.is_nested else f"a {tensor.layout}"
        raise TypeError(f"customccl: a dense tensor is needed, not {kind} one")
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return dense.as_strided((dense.numel(),), (1,)).view(torch.uint8)  # a single element may have any stride
