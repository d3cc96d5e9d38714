"""Copies and nothing else: what memory allows at the very moment at which the peers are measured.

Every rank copies, all at once, as many bytes as the operation has it copy at least (operations.py), from its input,
just rewritten like everybody's, to memory of its own. On a virtual machine memory is a third faster in one minute than
in the next; a speed measured before the run says little of a cell ten minutes later.
"""

import ctypes
import time
from typing import Any

import torch

from benchmarks import native
from benchmarks.buffers import Buffers
from benchmarks.operations import OPERATIONS
from benchmarks.styles import Call

LEAST_BYTES = 16 << 20  # of smaller tensors part is in caches, and one more copy of it would push others out
_LINE = 64


def bind(operation: str, buffers: Buffers) -> Call:
    """The faster kind of copy, as each rank finds it now, while the others try too."""
    count = int(buffers.size * OPERATIONS[operation].least_copy(buffers.ranks)) // _LINE * _LINE
    target = torch.zeros(count, dtype=torch.uint8)
    ways = [_way(target, buffers.input, streaming) for streaming in (False, True)]
    return min(ways, key=lambda way: min(_seconds(way) for _ in range(3)))


def _way(target: torch.Tensor, source: torch.Tensor, streaming: bool) -> Call:
    copy: Any = ctypes.CDLL(str(native.sync_library())).benchmarks_copy
    copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    pieces = torch.split(target, source.nbytes // _LINE * _LINE)  # each from the source's beginning

    def call() -> None:
        for piece in pieces:
            copy(piece.data_ptr(), source.data_ptr(), piece.numel(), streaming)

    return call


def _seconds(call: Call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin
