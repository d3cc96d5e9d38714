"""All members of a group take its next membership, or none does, whenever one of them gives up, fails or dies."""

from __future__ import annotations

import signal

import pytest
import torch.distributed as dist
from harness.rank import error_of, tell_parent
from shared import LIMIT, SWAPPED, group, store, total

from torch_customccl import group_attempt, join_group
from torch_customccl.backend import latest_keys
from torch_customccl.group_change import Change
from torch_customccl.group_outcome import DROPPED, MADE, Outcome

SHORT = LIMIT / 20
MEMBERS = ["1", "guest", "0"]


def wait_for(at, key):
    while not at.check([key]):  # wait() would keep the store's connection from the other threads
        pass


def as_guest(name):
    """What join_group() prepares."""
    keys = latest_keys(dist.PrefixStore(f"group/{name}", store()), LIMIT, name)
    return Change(keys, name, 2, MEMBERS, "guest", LIMIT)


def met(made, members):
    """What is prepared, when all have met; if they must meet again, they wait for nobody for long."""
    change = made.prepare(members)
    change.wait()
    assert made.prepare(members, timeout=SHORT) is change
    return change


def unchanged(made):
    """The group works as it did, and can have another membership."""
    assert made.membership == 1 and total(made) == 3.0
    made.prepare(SWAPPED)
    made.commit()
    return made.membership, made.members, total(made)


UNCHANGED = (2, SWAPPED, 3.0)


@pytest.mark.parametrize("word", [MADE, DROPPED])
def test_the_first_word_stands(word):
    store = dist.HashStore()
    other = DROPPED if word is MADE else MADE
    attempts = ["a", "b"]
    mine, yours = Outcome(store, attempts), Outcome(store, attempts)
    assert mine.decide(word) and not yours.decide(other) and yours.decide(word) and not mine.decide(other)
    assert Outcome(store, ["b", "a"]).decide(other)  # another meeting


def test_who_has_met_is_told():
    store = dist.HashStore()
    mine = Outcome(store, ["a", "b"])
    assert mine.lacking() == [0, 1]
    mine.tell_met(1)
    assert Outcome(store, ["a", "b"]).lacking() == [0]
    mine.tell_met(0)
    assert mine.lacking() == []


def test_what_one_has_committed_all_commit_though_another_gives_it_up(ranks):
    def body(rank, size):
        if rank == 2:
            change = as_guest("committed by one")
            change.wait()
            wait_for(store(), "rank 0 has committed")
            change.drop()
            store().set("the guest has gone", "")
            return None
        with group(rank, 2, "committed by one") as made:
            made.prepare(MEMBERS).wait()
            if rank == 1:
                wait_for(store(), "the guest has gone")
            made.commit()
            if rank == 0:
                store().set("rank 0 has committed", "")
            assert (made.membership, made.members) == (2, MEMBERS)
            gone = error_of(total, made)
            made.prepare(SWAPPED)
            made.commit()
            return gone, made.membership, total(made)

    for gone, membership, at_last in ranks(3).run(body)[:2]:
        assert gone.is_a("DistBackendError") and "rank 1" in gone.text and "destroyed the group" in gone.text, gone
        assert (membership, at_last) == (3, 3.0)


def test_what_one_gave_up_before_nobody_commits(ranks):
    def body(rank, size):
        if rank == 2:
            change = as_guest("given up before")
            change.wait()
            wait_for(store(), "both are ready")
            change.drop()
            store().set("given up", "")
            return None
        with group(rank, 2, "given up before") as made:
            met(made, MEMBERS)
            made.barrier()
            store().set("both are ready", "") if rank == 0 else None
            wait_for(store(), "given up")
            return error_of(made.commit), unchanged(made)

    for raised, after in ranks(3).run(body)[:2]:
        assert raised.is_a("DistBackendError") and "guest" in raised.text and "did not come within" in raised.text, (
            raised
        )
        assert after == UNCHANGED


def test_a_new_member_does_not_decide_for_the_present_ones(ranks):
    def body(rank, size):
        if rank == 2:
            with join_group(store(), MEMBERS, "guest", "present ones decide", timeout=LIMIT) as made:
                store().set("joined", "")
                return error_of(total, made)
        with group(rank, 2, "present ones decide") as made:
            change = met(made, MEMBERS)
            wait_for(store(), "joined")
            made.barrier()  # both have seen that all have met
            if rank == 1:
                change.drop()
            made.barrier()
            return error_of(made.commit), unchanged(made)

    (refused, first), (given_up, second), gone = ranks(3).run(body)
    assert "did not come within" in refused.text and "was given up by drop()" in given_up.text
    assert first == second == UNCHANGED
    assert "destroyed the group" in gone.text


def test_nobody_commits_before_all_others_have_met(ranks):
    """The meeting of rank 1 fails after that of rank 0 has gone well."""

    def body(rank, size):
        with group(rank, size, "met by one") as made:
            at, original = made.own_store, group_attempt.meet

            def meets(*args, **kwargs):
                backend = original(*args, **kwargs)
                at.set(f"{rank} has met", "")
                if rank == 1:
                    wait_for(at, "looked")
                    backend.shutdown()
                    raise RuntimeError("its meeting failed")
                return backend

            group_attempt.meet = meets
            try:
                change = made.prepare(SWAPPED)
                if rank == 0:
                    wait_for(at, "0 has met")
                    for _ in range(200):
                        at.check(["time passes"])
                        assert not change.ready()
                    assert made.prepare(SWAPPED, timeout=SHORT) is change
                    at.set("looked", "")
                raised = error_of(made.commit)
            finally:
                group_attempt.meet = original
            return raised.text, unchanged(made)

    (others, first), (own, second) = ranks(2).run(body)
    assert "1 did not come within" in others and "its meeting failed" in own
    assert first == second == UNCHANGED


def test_who_meets_well_and_dies_is_named_to_all_who_prepare(ranks):
    members = ["2", "1", "0"]

    def body(rank, size):
        made = group(rank, size, "dies when it has met")
        original = group_attempt.meet

        def meets(*args, **kwargs):
            original(*args, **kwargs)
            tell_parent("has met")
            signal.pause()

        if rank == 1:
            group_attempt.meet = meets
        made.prepare(members)
        if rank == 1:
            signal.pause()
        raised = error_of(made.commit)
        made.prepare(["2", "0"])
        made.commit()
        return raised, made.membership, total(made)

    started = ranks(3, fresh=True, init=False)
    started.start(body)
    started.wait_for(1, "has met")
    started.kill(1)
    outcomes = started.finish(without=frozenset({1}))
    for raised, membership, at_last in (outcomes[0].value, outcomes[2].value):
        assert raised.is_a("DistBackendError") and "1 has died" in raised.text, raised
        assert (membership, at_last) == (2, 3.0)


def test_who_finds_that_it_was_given_up_waits_for_others_rather_than_meet_there_again(ranks):
    """Nothing shows yet who gave it up: all attempts stand in the store as they did."""

    def body(rank, size):
        with group(rank, size, "nobody shows it") as made:
            change = met(made, SWAPPED)
            made.barrier()
            assert rank == 1 or change._outcome.decide(DROPPED)
            made.barrier()
            return error_of(made.commit), unchanged(made)

    for raised, after in ranks(2).run(body):
        assert "did not come within" in raised.text, raised
        assert after == UNCHANGED
