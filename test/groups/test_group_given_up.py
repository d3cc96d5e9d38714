"""Memberships that some members give up, and come to again: whenever they do, those who stay can have the next."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of
from shared import LIMIT, SWAPPED, group, total

from torch_customccl import create_group, group_attempt, group_change


def wait_for(at, key):
    while not at.check([key]):  # wait() would keep the store's connection from the other threads
        time.sleep(0.001)


def all_ready(made, changing):
    x = torch.tensor([int(changing.ready())])
    made.all_reduce(x, dist.ReduceOp.MIN)
    return bool(x.item())


@pytest.mark.parametrize("between", [None, ["0"]])
def test_who_gives_a_list_up_can_come_again(ranks, between):
    """Also to those who have met it before and have prepared only once."""

    def body(rank, size, between):
        with group(rank, size, "come again") as made:
            changing = made.prepare(SWAPPED)
            changing.wait()
            made.barrier()
            if rank == 0:
                changing.drop()
                if between:
                    made.prepare(between)
                changing = made.prepare(SWAPPED)
            made.barrier()
            while not all_ready(made, changing):
                pass
            made.commit()
            return made.membership, made.rank(), total(made)

    assert ranks(2).run(body, between) == [(2, 1, 3.0), (2, 0, 3.0)]


def test_what_one_gives_up_the_others_do_not_commit(ranks):
    def body(rank, size):
        with group(rank, size, "given up") as made:
            changing = made.prepare(SWAPPED, timeout=LIMIT / 10)
            changing.wait()
            made.barrier()
            if rank == 0:
                changing.drop()
            made.barrier()
            raised = error_of(made.commit)
            assert total(made) == 3.0 and made.membership == 1
            made.prepare(SWAPPED)
            made.commit()
            return raised, total(made)

    (own, first), (others, second) = ranks(2).run(body)
    assert "was given up by drop()" in own.text and "0 did not come within" in others.text
    assert first == second == 3.0


@pytest.mark.parametrize("comes", ["while the other withdraws", "after that"])
def test_who_gives_up_in_a_meeting_is_not_waited_for(ranks, comes):
    """Rank 0 gives up while it waits for rank 1 at the meeting, and takes some time to withdraw."""

    def body(rank, size, comes):
        with group(rank, size, "in a meeting") as made:
            at, original, withdraw = made.own_store, group_attempt.meet, group_change.Change._withdraw

            def withdraws(change):
                if comes == "while the other withdraws":
                    time.sleep(0.1)
                    at.set("leaves", "")
                    time.sleep(0.1)
                withdraw(change)
                at.set("leaves", "")

            def meets(*args, **kwargs):
                if rank == 1:
                    wait_for(at, "leaves")
                else:
                    at.set("meets", "")
                return original(*args, **kwargs)

            group_attempt.meet = meets
            if rank == 0:
                group_change.Change._withdraw = withdraws
            try:
                changing = made.prepare(SWAPPED)
                if rank == 0:
                    wait_for(at, "meets")
                    time.sleep(0.1)
                    changing.drop()
                    changing = made.prepare(SWAPPED)
                while not all_ready(made, changing):
                    pass
                made.commit()
                return made.membership, total(made)
            finally:
                group_attempt.meet, group_change.Change._withdraw = original, withdraw

    assert ranks(2).run(body, comes) == [(2, 3.0), (2, 3.0)]


def test_who_has_not_come_to_the_meeting_is_named_also_when_another_has_given_up_waiting_for_it(ranks):
    """Rank 2 is there and does not go to the meeting, and the limit of rank 0 passes before that of rank 1."""

    def body(rank, size):
        with group(rank, size, "one does not come") as made:
            at, original = made.own_store, group_attempt.meet

            def meets(*args, **kwargs):
                if rank == 1:
                    at.set("rank 1 meets", "")
                wait_for(at, "both have failed" if rank == 2 else "rank 1 meets")  # before rank 0 is gone
                if rank == 2:
                    raise RuntimeError("it did not come")
                return original(*args, **kwargs)

            group_attempt.meet = meets
            try:
                changing = made.prepare(["0", "1", "2"], timeout=LIMIT / (5 if rank == 1 else 10))
                raised = error_of(changing.wait)
                at.set("both have failed", "") if rank == 1 else None
                made.barrier()
                return raised.text
            finally:
                group_attempt.meet = original

    texts = ranks(3).run(body)
    assert all("global rank 2 did not join" in text for text in texts[:2]), "\n".join(texts)


def test_ctrl_c_while_one_gives_up_leaves_no_meeting_behind(ranks):
    """Rank 0 waits for rank 1 at the meeting, which it may do for an hour, when drop() is interrupted."""

    def body(rank, size):
        with group(rank, size, "interrupted") as made:
            at, original, withdraw = made.own_store, group_attempt.meet, group_change.Change._withdraw

            def is_interrupted(change):
                group_change.Change._withdraw = withdraw
                raise KeyboardInterrupt

            def meets(*args, **kwargs):
                if rank == 0:
                    at.set("meets", "")
                else:
                    wait_for(at, "ended")
                return original(*args, **kwargs)

            group_attempt.meet = meets
            try:
                changing = made.prepare(SWAPPED, timeout=LIMIT / 10 if rank else timedelta(hours=1))
                if rank == 0:
                    wait_for(at, "meets")
                    group_change.Change._withdraw = is_interrupted
                    with pytest.raises(KeyboardInterrupt):
                        changing.drop()
                    assert changing.ended(LIMIT)
                    at.set("ended", "")
                return error_of(changing.wait).text, total(made)
            finally:
                group_attempt.meet, group_change.Change._withdraw = original, withdraw

    (own, first), (others, second) = ranks(2).run(body)
    assert "gave it up" in own and "0 did not come within" in others
    assert first == second == 3.0


def test_members_that_prepare_and_give_up_at_random_meet_in_the_end(ranks):
    def body(rank, size):
        members = ["2", "0", "1"]
        with group(rank, size, "at random") as made:
            for step in range(30):
                for again in range((step * (rank + 1)) % 4):
                    changing = made.prepare(members)
                    if (step + again + rank) % 3:
                        time.sleep(0.0003 * ((7 * step + 3 * again + rank) % 11))
                    changing.drop()
                changing = made.prepare(members)
                while not all_ready(made, changing):
                    pass
                made.commit()
                assert total(made) == 6.0
            return made.membership

    assert ranks(3).run(body) == [31, 31, 31]


def test_what_was_given_up_is_not_committed():
    with create_group(dist.HashStore(), 0, 1, "dropped", timeout=LIMIT) as made:
        for members in (["0"], ["0", "1"], ["1"]):
            changing = made.prepare(members)
            if members == ["0"]:
                changing.wait()
            changing.drop()
            with pytest.raises(RuntimeError, match="membership 2 of group 'dropped' was given up"):
                made.commit()
            assert not made.closed and made.membership == 1
        changing = made.prepare(["0"])
        made.commit()
        changing.drop()  # it is the group's now
        made.barrier()
        made.prepare(["1"])
        made.commit()
        assert made.closed


def test_a_forked_child_changes_nothing_of_its_parents_group(ranks):
    """Neither by what it calls nor by closing the group, while a membership is being prepared."""

    def body(rank, size):
        with group(rank, size, "forked") as made:
            under_way = made.prepare(SWAPPED) if rank == 0 else None
            child = os.fork()
            if child == 0:
                raised = [error_of(made.prepare, SWAPPED), error_of(made.commit), error_of(made.subgroup, [0, 1])]
                if under_way is not None:
                    raised += [error_of(under_way.ready), error_of(under_way.wait)]
                    under_way.drop()
                made.close()
                refused = all(each.is_a("DistBackendError") and "was forked from" in each.text for each in raised)
                os._exit(0 if refused else 1)
            assert os.waitpid(child, 0)[1] == 0
            made.prepare(SWAPPED)
            made.commit()
            return made.membership, made.rank(), total(made)

    assert ranks(2, fresh=True).run(body) == [(2, 1, 3.0), (2, 0, 3.0)]
