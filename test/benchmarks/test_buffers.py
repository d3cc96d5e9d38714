"""What the benchmark holds for a right result is one, and a wrong one is noticed."""

import pytest
import torch
from torch import Tensor

from benchmarks import buffers
from benchmarks.buffers import Buffers
from benchmarks.operations import OPERATIONS


def perform(operation: str, world: list[Buffers]) -> None:
    """The operation, slowly, over the buffers of all ranks."""
    inputs = [side.input.clone() for side in world]
    for rank, side in enumerate(world):
        result = _result(operation, world, inputs, rank)
        if result is not None:
            side.output.copy_(result)


def _result(operation: str, world: list[Buffers], inputs: list[Tensor], rank: int) -> Tensor | None:
    ranks = len(world)
    total = torch.stack([tensor.float() for tensor in inputs]).sum(0) if operation_sums(operation) else None
    match operation:
        case "all_reduce" | "coalesced":
            return total
        case "reduce":
            return total if rank == 0 else None
        case "broadcast":
            return inputs[0]
        case "reduce_scatter":
            assert total is not None
            return total.chunk(ranks)[rank]
        case "scatter":
            return inputs[0].chunk(ranks)[rank]
        case "all_gather" | "gather":
            return torch.cat(inputs) if operation == "all_gather" or rank == 0 else None
        case "all_to_all":
            return torch.cat([tensor.chunk(ranks)[rank] for tensor in inputs])
        case "all_to_all_skewed":
            return torch.cat([tensor.split(world[0].input_splits)[rank] for tensor in inputs])
        case "send_recv":
            return inputs[rank ^ 1] if rank ^ 1 < ranks else None
    return None


def operation_sums(operation: str) -> bool:
    return operation in ("all_reduce", "coalesced", "reduce", "reduce_scatter")


def world_of(operation: str, dtype: str, ranks: int, size: int) -> list[Buffers]:
    world = [buffers.make(operation, dtype, rank, ranks, size) for rank in range(ranks)]
    for side in world:
        side.spoil()
        side.rewrite()
    return world


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_right_results_have_no_wrong_element(operation: str, dtype: str, ranks: int) -> None:
    world = world_of(operation, dtype, ranks, 6000)
    perform(operation, world)
    assert [side.wrong() for side in world] == [0] * ranks


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name != "barrier"])
def test_an_operation_that_does_nothing_is_found(operation: str) -> None:
    world = world_of(operation, "float32", 2, 6000)
    assert sum(side.wrong() for side in world) > 0
