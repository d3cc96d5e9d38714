"""Tensors of one operation on one rank: what is written before each call, and what must stand in the outputs after it.

Element i of rank r's input is (i mod 13) + r: small integers, exact in bfloat16 for the sums of 13 ranks, and different
per rank and position.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.operations import COALESCED_TENSORS, PERIOD, actual_size, element_count, skewed_weights

Allocate = Callable[[int, torch.dtype], Tensor]


def plain_memory(count: int, dtype: torch.dtype) -> Tensor:
    return torch.zeros(count, dtype=dtype)


@dataclass
class Buffers:
    """`rewritten` gets the values `fresh` before each call. `expected` are (output, correct values) pairs."""

    rank: int
    ranks: int
    input: Tensor
    output: Tensor
    fresh: Tensor
    expected: Callable[[], list[tuple[Tensor, Tensor]]]
    parts: list[Tensor] = field(default_factory=list)
    input_splits: list[int] = field(default_factory=list)
    output_splits: list[int] = field(default_factory=list)
    size: int = 0  # S in bytes

    def rewrite(self) -> None:
        self.input.copy_(self.fresh)

    def wrong(self) -> int:
        """Elements that are not what they must be."""
        return sum(int((output != values).sum()) for output, values in self.expected())

    def spoil(self) -> None:
        """Outputs that no operation would write, so that one that writes nothing is found."""
        if self.output is not self.input:
            self.output.fill_(-1)


def values(rank: int, begin: int, count: int, dtype: torch.dtype) -> Tensor:
    return (torch.arange(begin, begin + count, dtype=torch.int32) % PERIOD + rank).to(dtype)


def sum_over_ranks(ranks: int, begin: int, count: int, dtype: torch.dtype) -> Tensor:
    base = torch.arange(begin, begin + count, dtype=torch.int32) % PERIOD
    return (ranks * base + ranks * (ranks - 1) // 2).to(dtype)


def make(
    operation: str, dtype_name: str, rank: int, ranks: int, size: int, allocate: Allocate = plain_memory
) -> Buffers:
    """Buffers for S = `size` bytes, rounded to what the operation can divide."""
    dtype: torch.dtype = getattr(torch, dtype_name)
    count = element_count(operation, dtype_name, ranks, size)
    buffers = _MAKERS.get(operation, _in_place)(operation, dtype, rank, ranks, count, allocate)
    buffers.size = actual_size(operation, dtype_name, ranks, size)
    return buffers


def _in_place(operation: str, dtype: torch.dtype, rank: int, ranks: int, count: int, allocate: Allocate) -> Buffers:
    """all_reduce, reduce (to rank 0), broadcast (from rank 0), coalesced, and barrier with an unused tensor."""
    tensor = allocate(count, dtype)
    right: dict[str, Callable[[], Tensor]] = {
        "all_reduce": lambda: sum_over_ranks(ranks, 0, count, dtype),
        "coalesced": lambda: sum_over_ranks(ranks, 0, count, dtype),
        "reduce": lambda: sum_over_ranks(ranks, 0, count, dtype) if rank == 0 else tensor,
        "broadcast": lambda: values(0, 0, count, dtype),
        "barrier": lambda: tensor,
    }
    expected = right[operation]
    buffers = Buffers(rank, ranks, tensor, tensor, values(rank, 0, count, dtype), lambda: [(tensor, expected())])
    if operation == "coalesced":
        buffers.parts = list(tensor.chunk(COALESCED_TENSORS))
    return buffers


def _all_gather(operation: str, dtype: torch.dtype, rank: int, ranks: int, count: int, allocate: Allocate) -> Buffers:
    """all_gather, and gather to rank 0."""
    block = count // ranks
    output = allocate(count, dtype)

    def expected() -> list[tuple[Tensor, Tensor]]:
        if operation == "gather" and rank != 0:
            return []
        return [(output, torch.cat([values(source, 0, block, dtype) for source in range(ranks)]))]

    fresh = values(rank, 0, block, dtype)
    return Buffers(rank, ranks, allocate(block, dtype), output, fresh, expected, parts=list(output.chunk(ranks)))


def _scatter(operation: str, dtype: torch.dtype, rank: int, ranks: int, count: int, allocate: Allocate) -> Buffers:
    """reduce_scatter, and scatter from rank 0."""
    block = count // ranks
    tensor, output = allocate(count, dtype), allocate(block, dtype)

    def expected() -> list[tuple[Tensor, Tensor]]:
        if operation == "scatter":
            return [(output, values(0, rank * block, block, dtype))]
        return [(output, sum_over_ranks(ranks, rank * block, block, dtype))]

    fresh = values(rank, 0, count, dtype)
    return Buffers(rank, ranks, tensor, output, fresh, expected, parts=list(tensor.chunk(ranks)))


def _all_to_all(operation: str, dtype: torch.dtype, rank: int, ranks: int, count: int, allocate: Allocate) -> Buffers:
    weights = [1] * ranks if operation == "all_to_all" else skewed_weights(ranks)
    parts = ranks if operation == "all_to_all" else ranks * weights[0]
    sends = [count // parts * weight for weight in weights]
    receives = [sends[rank]] * ranks
    begin = sum(sends[:rank])
    tensor, output = allocate(sum(sends), dtype), allocate(sum(receives), dtype)

    def expected() -> list[tuple[Tensor, Tensor]]:
        return [(output, torch.cat([values(source, begin, sends[rank], dtype) for source in range(ranks)]))]

    buffers = Buffers(rank, ranks, tensor, output, values(rank, 0, sum(sends), dtype), expected)
    if operation == "all_to_all_skewed":
        buffers.input_splits, buffers.output_splits = sends, receives
    return buffers


def _send_recv(operation: str, dtype: torch.dtype, rank: int, ranks: int, count: int, allocate: Allocate) -> Buffers:
    """Pairs of ranks (0, 1), (2, 3), ...: there and back. With an odd number the last rank looks on."""
    output = allocate(count, dtype)
    partner = rank ^ 1

    def expected() -> list[tuple[Tensor, Tensor]]:
        return [(output, values(partner, 0, count, dtype))] if partner < ranks else []

    return Buffers(rank, ranks, allocate(count, dtype), output, values(rank, 0, count, dtype), expected)


_MAKERS = {
    "all_gather": _all_gather,
    "gather": _all_gather,
    "reduce_scatter": _scatter,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "all_to_all_skewed": _all_to_all,
    "send_recv": _send_recv,
}
