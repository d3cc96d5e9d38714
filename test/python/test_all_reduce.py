"""all_reduce: sums on every rank, at every size, in place, bit for bit the same everywhere."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded, assert_same_bits
from harness.oracle import COUNTS, LARGE_COUNT, SUM, hashes, operand, reduced


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_reduce_sums_every_element_and_writes_nothing_else(ranks, size):
    def body(rank, size):
        for count in (*COUNTS, LARGE_COUNT):
            value = Guarded.holding(operand(rank, count, torch.float32, SUM, size))
            dist.all_reduce(value.tensor)
            value.check(reduced(range(size), count, torch.float32, SUM, size), f"{count} elements")

    ranks(size).run(body)


def test_all_reduce_of_random_floats_gives_all_ranks_the_same_bits_at_every_size(ranks):
    """The sum of random floats depends on the order of addition: here it is rank 0, 1, 2 for every element."""

    def body(rank, size):
        for count in (7, 1000, 16385, LARGE_COUNT):
            values = [hashes(each, count, salt=9).float() / 3.0 for each in range(size)]
            mine = values[rank].clone()
            dist.all_reduce(mine)
            in_rank_order = values[0].clone()
            for value in values[1:]:
                in_rank_order += value
            assert_same_bits(mine, in_rank_order, f"{count} random floats")

    ranks(3).run(body)


def test_all_reduce_many_times_in_a_row_never_mixes_calls(ranks):
    def body(rank, size):
        for turn in range(300):
            count = (turn * 37) % 900
            value = operand(rank, count, torch.int64, SUM, size, salt=turn)
            dist.all_reduce(value)
            assert_same_bits(value, reduced(range(size), count, torch.int64, SUM, size, salt=turn), f"call {turn}")

    ranks(2).run(body)


def test_a_rank_that_flushes_denormals_gets_the_bits_of_the_others(ranks):
    def body(rank, size):
        torch.set_flush_denormal(rank == 1)
        for count in (2, 3000, 700_000):
            value = torch.full((count,), 1, dtype=torch.int32).view(torch.float32)  # the smallest float32 there is
            dist.all_reduce(value)
            assert bool((value.view(torch.int32) == size).all()), f"{count}"
        torch.set_flush_denormal(False)

    ranks(3).run(body)


def test_a_complex_factor_is_for_complex_numbers_alone(ranks):
    """torch.distributed hands over the real view of a complex tensor: of such a factor half would be lost."""

    def body(rank, size):
        turned = dist._make_nccl_premul_sum(torch.tensor(1j))
        for dtype in (torch.float32, torch.complex64):
            value = torch.ones(3, dtype=dtype)
            with pytest.raises(ValueError, match="takes a real factor for dtype float32"):
                dist.all_reduce(value, op=turned)
            dist.all_reduce(value, op=dist._make_nccl_premul_sum(torch.tensor(2 + 0j)))
            assert value.eq(2 * size).all()
        value = torch.ones(3, dtype=torch.complex64)
        dist.group.WORLD._get_backend(torch.device("cpu")).all_reduce(value, turned)
        assert value.eq(size * 1j).all()

    ranks(2).run(body)
