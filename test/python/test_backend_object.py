"""What the backend's object answers beside operations."""

from __future__ import annotations

import torch
import torch.distributed as dist


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def test_survivors_shrink_a_group_without_the_ranks_they_leave_out(ranks):
    def body(rank, size):
        assert backend().supports_shrinking
        if rank == 1:
            return
        for _ in range(2):
            smaller = backend().shrink([1])
            assert (smaller.rank(), smaller.size()) == (rank // 2, 2)
            value = torch.full((1000,), float(rank))
            smaller.allreduce([value]).wait()
            assert bool((value == 2).all())
            smaller.shutdown()

    ranks(3, fresh=True).run(body)


def test_works_tell_how_long_they_took_and_sequence_numbers_count_collectives(ranks):
    def body(rank, size):
        before = backend()._get_sequence_number_for_group()
        works = [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(3)]
        for work in works:
            work.wait()
        assert all(0 < work._get_duration() < 1e6 for work in works)
        assert backend()._get_sequence_number_for_group() == before + 3

    ranks(2).run(body)
