"""Objects that are no plain data, as pickles; tensors and buffers in them travel beside the pickle, uncopied."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import torch


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer], tensors: list[torch.Tensor]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self._tensors = tensors
        self._numbers: dict[int, int] = {}  # of tensors, which live as long as this, by id()

    def persistent_id(self, value: Any) -> int | None:
        # Not subclasses: torch has them pickled as a class and plain tensors, which come here by themselves.
        if type(value) is not torch.Tensor or value.layout is not torch.strided:
            return None
        if value.is_quantized or value.is_nested or value.device.type != "cpu" or value.requires_grad:
            return None
        number = self._numbers.setdefault(id(value), len(self._tensors))
        if number == len(self._tensors):
            self._tensors.append(value)
        return number


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, buffers: Sequence[Any], tensors: Sequence[torch.Tensor]) -> None:
        super().__init__(file, buffers=buffers)
        self._tensors = tensors

    def persistent_load(self, number: int) -> torch.Tensor:
        return self._tensors[number]


def dump(value: Any) -> tuple[bytes, list[memoryview], list[torch.Tensor]]:
    """The pickle of `value`, and its buffers and tensors in the order in which the pickle refers to them."""
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    tensors: list[torch.Tensor] = []
    _Pickler(file, buffers, tensors).dump(value)
    return file.getvalue(), [buffer.raw() for buffer in buffers], tensors


def load(data: bytes, buffers: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Any:
    """What dump() was given. Runs code that the sender chose: for messages of ranks that are trusted."""
    return _Unpickler(io.BytesIO(data), buffers, tensors).load()
