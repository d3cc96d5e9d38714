"""Who meets the members of a group to be hears at once of one that died, also where no group knows it yet."""

from __future__ import annotations

import signal
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, hear_parent, in_a_while, share_no_memory, tell_parent

import torch_customccl
from torch_customccl import group_attempt
from torch_customccl.group_arguments import members_key

pytestmark = pytest.mark.usefixtures("nothing_left")

LONG = timedelta(seconds=120)
WITHIN = LONG.total_seconds() / 2


def place(port):
    return dist.PrefixStore("deaths", dist.TCPStore("127.0.0.1", port, is_master=False, timeout=LONG))


def parent(rank, size, port):
    return torch_customccl.create_group(place(port), rank, size, "parent", timeout=LONG)


def joins(rank, size, port, members, shares=True):
    if not shares:
        share_no_memory()
    tell_parent("begins")
    try:
        made = torch_customccl.join_group(place(port), members, "guest", "parent", timeout=LONG)
    except dist.DistBackendError as error:
        tell_parent("refused")
        return str(error)
    return total(made)


def total(made):
    with made:
        x = torch.tensor([made.rank() + 1.0])
        made.all_reduce(x)
        made.barrier()
        return x.item()


def committed(made, members):
    made.prepare(members)
    made.commit()


def looks_at(change):
    """How often it has looked for deaths from now on."""
    looks = []
    deaths = change._attempt._deaths
    name = deaths.name
    deaths.name = lambda attempts: (name(attempts), looks.append(attempts))[0]
    return looks


@pytest.mark.parametrize("stopped", [False, True])
def test_a_new_member_that_dies_while_it_waits_is_named_once_and_another_may_take_its_place(ranks, stopped):
    """A process that is stopped does not show its memory: whether it lives is asked again."""
    members = ["guest", "1", "0"]

    def body(rank, size, port):
        made = parent(rank, size, port)
        if rank == 0:
            made.own_store.wait([f"membership/2/{members_key(members)}/here/guest"], LONG)
            tell_parent("sees the guest")
        hear_parent()
        change = made.prepare(members)
        if rank == 0:
            looks = looks_at(change)
            assert in_a_while(lambda: len(looks) > 1)
            tell_parent("waits for 1")
        refused = error_of(change.wait)
        assert refused.is_a("DistBackendError") and "guest has died" in refused.text, refused
        assert "of group 'parent' was not made" in refused.text, refused
        change = made.prepare(members)
        assert not change.ready()
        tell_parent("prepares again")
        made.commit()
        return total(made)

    port = ranks.pool.store_port
    present = ranks(2, fresh=True, init=False)
    present.start(body, port)
    guest = ranks(1, fresh=True, init=False)
    guest.start(joins, port, members)
    present.wait_for(0, "sees the guest")
    if stopped:
        guest.send_signal(0, signal.SIGSTOP)
    present.tell(0, "go")
    present.wait_for(0, "waits for 1")
    guest.kill(0)
    guest.end()
    present.wait_for(0, "prepares again", WITHIN)
    present.tell(1, "go")
    present.wait_for(1, "prepares again", WITHIN)
    guest = ranks(1, fresh=True, init=False)
    guest.start(joins, port, members)
    assert [outcome.value for outcome in present.finish()] == [6.0, 6.0]
    assert guest.finish()[0].value == 6.0


@pytest.mark.parametrize("shares", [True, False])
def test_a_new_member_hears_of_a_present_one_that_died_before_it_came(ranks, shares):
    members = ["2", "guest", "1"]

    def body(rank, size, port):
        made = parent(rank, size, port)
        tell_parent("ready")
        hear_parent()
        return error_of(committed, made, members)

    port = ranks.pool.store_port
    present = ranks(3, fresh=True, init=False)
    present.start(body, port)
    for rank in range(3):
        present.wait_for(rank, "ready")
    present.kill(2)
    present.wait_for_death(2)
    guest = ranks(1, fresh=True, init=False)
    guest.start(joins, port, members, shares)
    guest.wait_for(0, "begins")
    present.tell(1, "go")
    guest.wait_for(0, "refused", WITHIN)
    assert "2 has died" in guest.finish()[0].value
    present.tell(0, "go")  # leaves, and is refused nothing but what it asks for
    outcomes = present.finish(without=frozenset({0, 2}))
    assert "2 has died" in outcomes[1].value.text


def test_a_new_member_sees_that_a_present_one_died_that_had_come(ranks):
    members = ["2", "guest", "1"]

    def body(rank, size, port):
        made = parent(rank, size, port)
        if rank == 2:
            made.prepare(members)
        tell_parent("ready")
        hear_parent()

    port = ranks.pool.store_port
    present = ranks(3, fresh=True, init=False)
    present.start(body, port)
    for rank in range(3):
        present.wait_for(rank, "ready")
    guest = ranks(1, fresh=True, init=False)
    guest.start(joins, port, members)
    guest.wait_for(0, "begins")
    present.kill(2)
    guest.wait_for(0, "refused", WITHIN)
    assert "2 has died" in guest.finish()[0].value
    for rank in (0, 1):
        present.tell(rank, "go")
    present.finish()


def test_a_new_member_meets_nobody_before_it_would_see_them_die(ranks):
    """A present member is stopped when all have agreed to meet, so it does not show its memory; then it is killed."""
    members = ["0", "guest"]

    def body(rank, size, port):
        change = parent(rank, size, port).prepare(members)
        assert in_a_while(lambda: change._attempt._said is not None)
        tell_parent("has said that it sees the guest")
        hear_parent()

    def joins_late(rank, size, port):
        agree = group_attempt.Attempt.agree

        def held(attempt):
            group_attempt.Attempt.agree = agree
            tell_parent("is there")
            hear_parent()
            seen = agree(attempt)
            tell_parent("has looked")
            return seen

        group_attempt.Attempt.agree = held
        return joins(rank, size, port, members)

    port = ranks.pool.store_port
    present, guest = ranks(1, fresh=True, init=False), ranks(1, fresh=True, init=False)
    present.start(body, port)
    guest.start(joins_late, port)
    present.wait_for(0, "has said that it sees the guest")
    guest.wait_for(0, "begins")
    guest.wait_for(0, "is there")
    present.send_signal(0, signal.SIGSTOP)
    guest.tell(0, "go")
    guest.wait_for(0, "has looked")
    present.kill(0)
    guest.wait_for(0, "refused", WITHIN)
    assert "0 has died" in guest.finish()[0].value
