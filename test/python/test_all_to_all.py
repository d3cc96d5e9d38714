"""all_to_all: what rank r holds for rank q arrives at q as the entry of r; even, uneven and empty parts."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded
from harness.layouts import LAYOUTS
from harness.oracle import COUNTS, LARGE_COUNT, bits


def letter(source: int, destination: int, count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """What `source` sends to `destination`."""
    return bits(source, count, dtype, salt=destination)


def rows_between(source: int, destination: int, base: int) -> int:
    """An uneven table with zeros in it."""
    return base * ((source + 2 * destination) % 3)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_to_all_exchanges_lists_of_equal_tensors(ranks, size):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT // size):
            inputs = [Guarded.holding(letter(rank, to, count)) for to in range(size)]
            outputs = [Guarded((count,), torch.float32) for _ in range(size)]
            dist.all_to_all([each.tensor for each in outputs], [each.tensor for each in inputs])
            for other in range(size):
                inputs[other].check_unchanged(f"input for {other}, {count} elements")
                outputs[other].check(letter(other, rank, count), f"{count} elements from rank {other}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_to_all_exchanges_lists_of_uneven_and_empty_tensors(ranks, size):
    def body(rank, size):
        for base in (1, 13, 5000, 100_001):
            inputs = [Guarded.holding(letter(rank, to, rows_between(rank, to, base))) for to in range(size)]
            outputs = [Guarded((rows_between(source, rank, base),), torch.float32) for source in range(size)]
            dist.all_to_all([each.tensor for each in outputs], [each.tensor for each in inputs])
            for source, output in enumerate(outputs):
                output.check(letter(source, rank, rows_between(source, rank, base)), f"base {base}, from rank {source}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_to_all_single_splits_evenly_when_no_splits_are_given(ranks, size):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT // size):
            mine = Guarded.holding(torch.cat([letter(rank, to, count) for to in range(size)]))
            output = Guarded((size * count,), torch.float32)
            dist.all_to_all_single(output.tensor, mine.tensor)
            mine.check_unchanged(f"input of {size} x {count}")
            output.check(torch.cat([letter(source, rank, count) for source in range(size)]), f"{size} x {count}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_all_to_all_single_splits_rows_unevenly_and_with_zeros(ranks, size):
    def body(rank, size):
        for base, columns in ((1, 1), (1, 7), (5, 3), (700, 30), (3, 0)):
            out_rows = [rows_between(rank, to, base) for to in range(size)]
            in_rows = [rows_between(source, rank, base) for source in range(size)]
            mine = Guarded.holding(
                torch.cat([letter(rank, to, n * columns) for to, n in enumerate(out_rows)]), (sum(out_rows), columns)
            )
            output = Guarded((sum(in_rows), columns), torch.float32)
            dist.all_to_all_single(output.tensor, mine.tensor, in_rows, out_rows)
            case = f"rows {out_rows} of {columns}"
            mine.check_unchanged(case)
            output.check(torch.cat([letter(source, rank, n * columns) for source, n in enumerate(in_rows)]), case)

    ranks(size).run(body)


def test_all_to_all_lets_a_rank_send_everything_to_one_and_nothing_to_the_others(ranks):
    def body(rank, size):
        rows = 10 * (rank + 1)
        splits = [rows if to == 0 else 0 for to in range(size)]
        received = [10 * (source + 1) if rank == 0 else 0 for source in range(size)]
        output = Guarded((sum(received),), torch.float32)
        dist.all_to_all_single(output.tensor, letter(rank, 0, rows), received, splits)
        expected = [letter(source, 0, n) for source, n in enumerate(received)]
        output.check(torch.cat(expected), "everything to rank 0")

    ranks(3).run(body)


def test_all_to_all_reads_and_writes_every_layout(ranks):
    def body(rank, size):
        for layout in LAYOUTS.values():
            inputs = [layout.holding(letter(rank, to, 120, torch.int16)) for to in range(size)]
            outputs = [layout.poisoned(120, torch.int16) for _ in range(size)]
            dist.all_to_all([each.tensor for each in outputs], [each.tensor for each in inputs])
            for source, output in enumerate(outputs):
                inputs[source].check_unchanged(layout.name)
                output.check(letter(source, rank, 120, torch.int16), f"{layout.name}, from rank {source}")

    ranks(3).run(body)
