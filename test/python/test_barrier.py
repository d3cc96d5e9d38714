"""barrier: nobody leaves before everybody has come."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist
from harness.rank import hear_parent, subgroup, tell_parent


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_nobody_leaves_the_barrier_before_the_last_one_has_come(ranks, size):
    """CLOCK_MONOTONIC is one clock for all processes of a machine: every leaving is later than every coming."""

    def body(rank, size):
        came_and_left = []
        for turn in range(50):
            if turn % size == rank:
                torch.ones(20_000).cumsum(0)  # another rank is late each time
            came = time.monotonic_ns()
            dist.barrier()
            came_and_left.append((came, time.monotonic_ns()))
        return came_and_left

    results = ranks(size).run(body)
    for turn, times in enumerate(zip(*results, strict=True)):
        last_came = max(came for came, _ in times)
        for rank, (_, left) in enumerate(times):
            assert left >= last_came, f"barrier {turn}: rank {rank} left {last_came - left} ns too early"


def test_an_asynchronous_barrier_is_not_done_while_a_rank_has_not_come(ranks):
    def body(rank, size):
        if rank == 1:
            tell_parent("about to come")
            hear_parent()
        work = dist.barrier(async_op=True)
        if rank == 0:
            early = work.is_completed()
            tell_parent("asked", early)
        work.wait()
        assert work.is_completed()

    workers = ranks(2)
    workers.start(body)
    workers.wait_for(1, "about to come")
    assert workers.wait_for(0, "asked") is False, "the barrier was done although rank 1 had not come"
    workers.tell(1, "come")
    assert all(hasattr(outcome, "value") for outcome in workers.finish())


def test_a_barrier_of_a_subgroup_does_not_wait_for_other_ranks(ranks):
    """Rank 2 comes to the barrier of all only after the others have told that they passed their own."""

    def body(rank, size):
        with subgroup([0, 1]) as pair:
            if rank < 2:
                dist.barrier(group=pair)
                tell_parent("passed")
            else:
                hear_parent()
            dist.barrier()

    workers = ranks(3)
    workers.start(body)
    workers.wait_for(0, "passed")
    workers.wait_for(1, "passed")
    workers.tell(2, "go on")
    assert all(hasattr(outcome, "value") for outcome in workers.finish())
