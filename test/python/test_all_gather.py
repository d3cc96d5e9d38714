"""all_gather: every rank ends with every rank's bits in rank order; into a list or into one tensor."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded
from harness.layouts import LAYOUTS
from harness.oracle import COUNTS, LARGE_COUNT, bits


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_gather_fills_a_list_and_only_reads_its_input(ranks, size):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT):
            mine = Guarded.holding(bits(rank, count, torch.float32))
            outputs = [Guarded((count,), torch.float32) for _ in range(size)]
            dist.all_gather([output.tensor for output in outputs], mine.tensor)
            mine.check_unchanged(f"input of {count} elements")
            for source, output in enumerate(outputs):
                output.check(bits(source, count, torch.float32), f"{count} elements of rank {source}")

    ranks(size).run(body)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_gather_into_tensor_concatenates_in_rank_order(ranks, size):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT):
            mine = Guarded.holding(bits(rank, count, torch.float32))
            output = Guarded((size * count,), torch.float32)
            dist.all_gather_into_tensor(output.tensor, mine.tensor)
            mine.check_unchanged(f"input of {count} elements")
            output.check(torch.cat([bits(each, count, torch.float32) for each in range(size)]), f"{count} elements")

    ranks(size).run(body)


def test_all_gather_into_tensor_stacks_when_the_output_has_one_more_dimension(ranks):
    def body(rank, size):
        output = Guarded((size, 4, 5), torch.int16)
        dist.all_gather_into_tensor(output.tensor, bits(rank, 20, torch.int16).reshape(4, 5))
        output.check(torch.cat([bits(each, 20, torch.int16) for each in range(size)]), "stacked")

    ranks(3).run(body)


def test_all_gather_into_tensor_works_in_place_where_the_input_is_a_slice_of_the_output(ranks):
    """What FSDP does: each rank's shard already lies where it belongs."""

    def body(rank, size):
        for count in (1, 13, 1000, 16385, LARGE_COUNT):
            whole = torch.zeros(size * count, dtype=torch.float32)
            mine = whole[rank * count : (rank + 1) * count]
            mine.copy_(bits(rank, count, torch.float32).nan_to_num())
            dist.all_gather_into_tensor(whole, mine)
            expected = torch.cat([bits(each, count, torch.float32).nan_to_num() for each in range(size)])
            assert torch.equal(whole, expected), f"{count} elements in place"

    ranks(3).run(body)


def test_all_gather_takes_another_length_from_every_rank(ranks):
    def body(rank, size):
        for base in (0, 1, 12, 4000, 100_000):
            counts = [base * (each + 1) // 2 + (each if base else 3 * each) for each in range(size)]
            mine = Guarded.holding(bits(rank, counts[rank], torch.float32))
            outputs = [Guarded((count,), torch.float32) for count in counts]
            dist.all_gather([output.tensor for output in outputs], mine.tensor)
            mine.check_unchanged(f"input, lengths {counts}")
            for source, output in enumerate(outputs):
                output.check(bits(source, counts[source], torch.float32), f"rank {source} of lengths {counts}")

    ranks(3).run(body)


def test_all_gather_reads_and_writes_every_layout(ranks):
    def body(rank, size):
        for layout in LAYOUTS.values():
            for kind in ("the same layout", "contiguous"):
                mine = layout.holding(bits(rank, 120, torch.int32))
                outputs = [layout.poisoned(120, torch.int32, dense=kind == "contiguous") for _ in range(size)]
                dist.all_gather([output.tensor for output in outputs], mine.tensor)
                case = f"{layout.name} into {kind}"
                mine.check_unchanged(case)
                for source, output in enumerate(outputs):
                    output.check(bits(source, 120, torch.int32), f"{case}, rank {source}")

    ranks(2).run(body)
