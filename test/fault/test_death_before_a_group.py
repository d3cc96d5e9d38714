"""A rank that died, or left, before a group was made is named at once by who makes it out of a group that knew it."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, group_works, hear_parent, share_no_memory, tell_parent

import torch_customccl

pytestmark = pytest.mark.usefixtures("nothing_left")

LATE = 1  # comes once all others have said what they saw; who looks for it first must not wait for it
VICTIM = 2
FIRST = [0, 3]
LONG = timedelta(seconds=120)


def parent(rank, size):
    store = dist.PrefixStore("deaths", dist.distributed_c10d._get_default_store())
    return torch_customccl.create_group(store, rank, size, "parent", timeout=LONG)


def prepared(made):
    made.prepare(["new", "3", "2", "1", "0"])
    made.commit()


WAYS = {
    "new_group": lambda made: dist.new_group(timeout=LONG),
    "new_group in another order": lambda made: dist.new_group([3, 1, 0, 2], timeout=LONG),
    "new_group without the others": lambda made: dist.new_group([0, 1, 2, 3], LONG, use_local_synchronization=True),
    "split_group": lambda made: dist.group.WORLD.split_group([1, 0, 3, 2], timeout=LONG),
    "subgroup": lambda made: made.subgroup([3, 2, 1, 0]),
    "prepare": prepared,
}


def make(how, made):
    failure = error_of(WAYS[how], made)
    tell_parent("refused")
    return failure


def check(workers, what, last=()):
    """The first two are refused while one is late, and then that one is. `last`: who is told to go on with them."""
    for rank in FIRST:
        workers.tell(rank, "go")
    for rank in FIRST:
        workers.wait_for(rank, "refused")
    for rank in (LATE, *last):
        workers.tell(rank, "go")
    outcomes = workers.finish(limit=LONG.total_seconds() / 2)
    for rank in [*FIRST, LATE]:
        failure = outcomes[rank].value
        assert failure.is_a("DistBackendError"), failure
        assert f"rank {VICTIM} did not join: it {what}" in failure.text or f"{VICTIM} {what}" in failure.text, failure


@pytest.mark.parametrize(("how", "shares"), [*((how, True) for how in WAYS), ("new_group", False)])
def test_who_makes_a_group_with_a_rank_that_has_died_is_told_at_once(ranks, how, shares):
    def body(rank, size, how, shares):
        made = parent(rank, size)
        tell_parent("ready")
        hear_parent()
        if not shares:
            share_no_memory()
        return make(how, made)

    workers = ranks(4, fresh=True)
    workers.start(body, how, shares)
    for rank in range(4):
        workers.wait_for(rank, "ready")
    workers.kill(VICTIM)
    workers.wait_for_death(VICTIM)
    check(workers, "has died")


@pytest.mark.parametrize("how", ["new_group", "split_group", "subgroup"])
def test_who_makes_a_group_with_a_rank_that_has_left_is_told_at_once(ranks, how):
    def body(rank, size, how):
        made = parent(rank, size)
        if rank != VICTIM:
            tell_parent("ready")
            hear_parent()
            return make(how, made)
        made.close()
        dist.destroy_process_group()
        tell_parent("ready")
        return hear_parent()  # lives until all others have been refused

    workers = ranks(4, fresh=True)
    workers.start(body, how)
    for rank in range(4):
        workers.wait_for(rank, "ready")
    check(workers, "has left", last=[VICTIM])


@pytest.mark.parametrize("how", ["shutdown", "abort"])
def test_a_group_can_be_made_out_of_one_that_has_ended_on_this_rank(ranks, how):
    def body(rank, size, how):
        getattr(dist.group.WORLD._get_backend(torch.device("cpu")), how)()
        group_works(dist.new_group(timeout=LONG))

    ranks(2, fresh=True).run(body, how)
