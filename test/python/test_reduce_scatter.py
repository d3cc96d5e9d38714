"""reduce_scatter: each rank gets its part of the reduction; inputs are only read."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded, assert_same_bits
from harness.layouts import LAYOUTS
from harness.oracle import AVG, COUNTS, LARGE_COUNT, MAX, SUM, operand, reduced


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reduce_scatter_tensor_gives_each_rank_its_part_of_the_sum(ranks, size):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT // size):
            whole = Guarded.holding(operand(rank, size * count, torch.float32, SUM, size))
            part = Guarded((count,), torch.float32)
            dist.reduce_scatter_tensor(part.tensor, whole.tensor)
            whole.check_unchanged(f"input of {size} x {count}")
            expected = reduced(range(size), size * count, torch.float32, SUM, size)
            part.check(expected[rank * count : (rank + 1) * count], f"{count} elements per rank")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_reduce_scatter_takes_a_list_with_one_input_for_each_rank(ranks, size):
    def body(rank, size):
        for op in (SUM, AVG, MAX):
            for count in (0, 1, 13, 15, 1000, 16385):
                inputs = [Guarded.holding(operand(rank, count, torch.float32, op, size, to)) for to in range(size)]
                output = Guarded((count,), torch.float32)
                dist.reduce_scatter(output.tensor, [each.tensor for each in inputs], op=op)
                output.check(reduced(range(size), count, torch.float32, op, size, salt=rank), f"{op} of {count}")
                for each in inputs:
                    each.check_unchanged(f"input, {op} of {count}")

    ranks(size).run(body)


def test_reduce_scatter_takes_another_length_for_every_rank(ranks):
    def body(rank, size):
        for counts in ([3, 0, 5], [0, 0, 1], [1000, 1, 40_000], [20_000, 16_384, 0]):
            inputs = [Guarded.holding(operand(rank, n, torch.float64, SUM, size, to)) for to, n in enumerate(counts)]
            output = Guarded((counts[rank],), torch.float64)
            dist.reduce_scatter(output.tensor, [each.tensor for each in inputs])
            output.check(reduced(range(size), counts[rank], torch.float64, SUM, size, salt=rank), f"lengths {counts}")

    ranks(3).run(body)


def test_reduce_scatter_tensor_averages_in_half_precision_as_fsdp_does(ranks):
    def body(rank, size):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            output = Guarded((1000,), dtype)
            dist.reduce_scatter_tensor(output.tensor, operand(rank, size * 1000, dtype, AVG, size), op=AVG)
            expected = reduced(range(size), size * 1000, dtype, AVG, size)
            output.check(expected[rank * 1000 : (rank + 1) * 1000], str(dtype))

    ranks(3).run(body)


def test_reduce_scatter_tensor_may_write_into_a_slice_of_its_own_input(ranks):
    def body(rank, size):
        for count in (1, 13, 1000, 16385, LARGE_COUNT // 2):
            whole = operand(rank, size * count, torch.float32, SUM, size)
            mine = whole[rank * count : (rank + 1) * count]
            dist.reduce_scatter_tensor(mine, whole)
            expected = reduced(range(size), size * count, torch.float32, SUM, size)
            assert_same_bits(mine, expected[rank * count : (rank + 1) * count], f"{count} elements in place")

    ranks(3).run(body)


def test_reduce_scatter_reads_and_writes_every_layout(ranks):
    def body(rank, size):
        for layout in LAYOUTS.values():
            inputs = [layout.holding(operand(rank, 120, torch.int64, SUM, size, to)) for to in range(size)]
            output = layout.poisoned(120, torch.int64)
            dist.reduce_scatter(output.tensor, [each.tensor for each in inputs])
            output.check(reduced(range(size), 120, torch.int64, SUM, size, salt=rank), layout.name)
            for each in inputs:
                each.check_unchanged(layout.name)

    ranks(2).run(body)
