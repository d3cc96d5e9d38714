"""The operations that are measured, listed once: names, what S means, and the factor from algbw to busbw.

Definitions of nccl-tests: t is the time of one call, the maximum over ranks; algbw = S / t; busbw = algbw x factor.
"""

from collections.abc import Callable
from dataclasses import dataclass


def _ring_twice(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


def _ring_once(ranks: int) -> float:
    return (ranks - 1) / ranks


def _whole(ranks: int) -> float:
    return 1.0


@dataclass(frozen=True)
class Operation:
    """`size` says what S counts; `least_copy` is the share of S that a rank must copy or read at least."""

    name: str
    size: str
    bus_factor: Callable[[int], float]
    least_copy: Callable[[int], float] = _whole
    has_bandwidth: bool = True


_TENSOR = "bytes of the tensor"
_TOTAL = "bytes of the full tensor (the block of one rank x ranks)"

OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("all_reduce", _TENSOR, _ring_twice),
        Operation("all_gather", _TOTAL, _ring_once),
        Operation("reduce_scatter", _TOTAL, _ring_once),
        Operation("broadcast", _TENSOR, _whole),
        Operation("reduce", _TENSOR, _whole),
        Operation("gather", _TOTAL, _ring_once),
        Operation("scatter", _TOTAL, _ring_once, lambda ranks: 1 / ranks),
        Operation("all_to_all", _TOTAL, _ring_once),
        Operation("all_to_all_skewed", "bytes the busiest rank receives", _ring_once),
        Operation("send_recv", "bytes there and back together; t is the round trip", _whole, lambda ranks: 0.5),
        Operation("barrier", "-", _whole, has_bandwidth=False),
        Operation("coalesced", "bytes of all 200 tensors together", _ring_twice),
    )
}

COALESCED_TENSORS = 200
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
PERIOD = 13  # of the values in a tensor (buffers.py)
_LARGEST_EXACT = {"float32": 1 << 24, "bfloat16": 1 << 8, "float16": 1 << 11}


def sums_are_exact(dtype: str, ranks: int) -> bool:
    """Whether the sums over so many ranks are whole numbers of this type on the way, too, whatever the order: else a
    backend that rounds as its type must would be called wrong."""
    return ranks * (PERIOD - 1) + ranks * (ranks - 1) // 2 <= _LARGEST_EXACT[dtype]


def element_count(operation: str, dtype: str, ranks: int, size: int) -> int:
    """Elements of the full tensor for a wanted S: at least one, and one per part where it is divided."""
    if operation == "barrier":
        return 0
    elements = max(1, size // ELEMENT_BYTES[dtype])
    if operation == "send_recv":
        return max(1, elements // 2)
    if operation in ("all_reduce", "broadcast", "reduce"):
        return elements
    parts = COALESCED_TENSORS if operation == "coalesced" else ranks
    if operation == "all_to_all_skewed":
        parts = ranks * skewed_weights(ranks)[0]
    return max(1, elements // parts) * parts


def actual_size(operation: str, dtype: str, ranks: int, size: int) -> int:
    """S of what is really run."""
    both_ways = 2 if operation == "send_recv" else 1
    return element_count(operation, dtype, ranks, size) * ELEMENT_BYTES[dtype] * both_ways


def skewed_weights(ranks: int) -> list[int]:
    """A router's favourite: of what every rank sends, rank 0 gets three quarters, the others share the rest evenly."""
    return [max(1, 3 * (ranks - 1)), *([1] * (ranks - 1))]


def algbw(size: int, seconds: float) -> float:
    """GB/s, 1 GB = 1e9 bytes."""
    return size / seconds / 1e9


def busbw(operation: str, ranks: int, size: int, seconds: float) -> float:
    return algbw(size, seconds) * OPERATIONS[operation].bus_factor(ranks)


DEFINITIONS = (
    "t: time of one call, maximum over ranks, median over samples. algbw = S / t, busbw = algbw x factor, GB = 1e9 "
    "bytes, as nccl-tests define them; n ranks. all_reduce: S = bytes of the tensor, factor 2(n-1)/n. all_gather, "
    "reduce_scatter, gather, scatter, all_to_all: S = the block of one rank x n, factor (n-1)/n. broadcast, reduce: "
    "S = bytes of the tensor, factor 1. send_recv: a round trip; S = bytes there and back, factor 1. "
    "all_to_all_skewed: S = bytes that rank 0, the busiest, receives (three quarters of what every rank sends), factor "
    f"(n-1)/n. coalesced: {COALESCED_TENSORS} tensors reduced in one call; S = all of them, factor 2(n-1)/n. message: "
    "512 bytes of names and numbers and eight tensors, there and back; S = bytes of the tensors; with gloo: a size, a "
    "pickle, and each tensor sent by itself. group_ready: create_group over a TCPStore. commit: the members change "
    "places. communicator: Communicator.allreduce."
)
