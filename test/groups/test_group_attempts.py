"""Memberships that are prepared again, interrupted or awaited in vain: the group can always try anew."""

from __future__ import annotations

import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, share_no_memory, tell_parent
from shared import LIMIT, SWAPPED, SlowToFollow, group, store, total

from torch_customccl import create_group, group_attempt, group_epochs, join_group, serve_store
from torch_customccl.group_arguments import members_key

SHORT = LIMIT / 50


def fails(rank, size, name, limit=SHORT, **options):
    return error_of(create_group, store(), rank, size, name, timeout=limit, **options)


def wait_until_they_try(name, **attempts):
    """Until each of these ranks is in its attempt of this number: `_0=2` is the second of rank 0."""
    store().wait([f"group/{name}/{attempt}/rank/{rank[1:]}" for rank, attempt in attempts.items()], LIMIT)


def limit_of(made):
    return made._get_backend(torch.device("cpu")).options._timeout


@pytest.mark.parametrize("gloo", [False, True])
def test_operations_have_the_limit_of_the_group_not_that_of_the_meeting(ranks, gloo):
    def body(rank, size, gloo):
        if gloo:
            group_attempt.meet = lambda keys, rank, size, timeout, **_: dist.ProcessGroupGloo(
                keys.part, rank, size, timeout
            )
        members = ["1", "0", "guest"]
        if rank == 2:
            made = join_group(store(), members, "guest", "limits", timeout=LIMIT / 2)
        else:
            made = create_group(store(), rank, 2, "limits", timeout=LIMIT)
            made.set_timeout(LIMIT * 2)
            made.prepare(members, timeout=LIMIT / 2)
            made.commit()
        with made:
            if not gloo:  # whose destructor may hang when another rank leaves right after an operation
                assert total(made) == 6.0
            store().set(f"limits/{rank}", "")  # nobody leaves while others still connect, which is an error for gloo
            store().wait([f"limits/{each}" for each in range(size)], LIMIT)
            return limit_of(made) == made.timeout, made.timeout

    expected = [(True, LIMIT * 2), (True, LIMIT * 2), (True, LIMIT / 2)]
    assert ranks(3, fresh=True).run(body, gloo) == expected


def test_the_same_list_again_goes_on_with_what_is_prepared(ranks):
    """Rank 0 asks again after all have met, rank 1 even after rank 0 has committed."""

    def body(rank, size):
        with group(rank, size, "same list") as made:
            first = made.prepare(SWAPPED)
            made.barrier()
            first.wait()
            while rank == 1 and group_epochs.latest(made.own_store) < 2:
                pass
            assert made.prepare(SWAPPED) is first
            made.commit()
            return made.membership, made.rank(), total(made)

    assert ranks(2).run(body) == [(2, 1, 3.0), (2, 0, 3.0)]


@pytest.mark.usefixtures("nothing_left")
def test_a_guest_that_died_does_not_spoil_the_next(ranks):
    """The first has come and is killed, before rank 1 prepares; the second has its name."""

    members = ["0", "1", "guest"]

    def stays(rank, size, port):
        place = dist.PrefixStore("guests", dist.TCPStore("127.0.0.1", port, is_master=False))
        with create_group(place, rank, 2, "guests", timeout=LIMIT) as made:
            tell_parent("made")
            here = f"membership/2/{members_key(members)}/here/guest"
            made.own_store.wait([here], LIMIT)
            first = made.own_store.get(here)
            if rank == 0:
                in_vain = made.prepare(members, timeout=LIMIT / 100)
                error_of(in_vain.wait)
                made.prepare(members)
                tell_parent("kill")
            while made.own_store.get(here) == first:
                pass
            made.prepare(members)
            made.commit()
            made.barrier()
            return made.size(), total(made)

    def comes(rank, size, port):
        place = dist.PrefixStore("guests", dist.TCPStore("127.0.0.1", port, is_master=False))
        with join_group(place, members, "guest", "guests", timeout=LIMIT) as made:
            made.barrier()
            return made.rank(), total(made)

    port = ranks.pool.store_port
    present = ranks(2, fresh=True, init=False)
    present.start(stays, port)
    present.wait_for(0, "made")
    guest = ranks(1, fresh=True, init=False)
    guest.start(comes, port)
    present.wait_for(0, "kill")
    guest.kill(0)
    guest.end()
    guest = ranks(1, fresh=True, init=False)
    guest.start(comes, port)
    assert [outcome.value for outcome in present.finish()] == [(3, 6.0), (3, 6.0)]
    assert guest.finish()[0].value == (2, 6.0)


def test_two_processes_of_one_name(ranks):
    """The one that came first is told."""

    def body(rank, size):
        if rank == 2:
            return None
        place = dist.PrefixStore("two of one name", store())
        made = create_group(place, 0, 1, "names", timeout=LIMIT) if rank == 0 else None
        if made is None:
            return error_of(join_group, place, ["0", "guest"], "guest", "names", timeout=LIMIT)
        here = f"membership/2/{members_key(['0', 'guest'])}/here/guest"
        made.own_store.wait([here], LIMIT)
        made.own_store.set(here, "of another")
        return made.close()

    raised = ranks(2).run(body)[1]
    assert raised.is_a("DistBackendError") and "another process has come as 'guest'" in raised.text


def test_after_an_interrupt_commit_can_be_called_again(ranks):
    def body(rank, size):
        with group(rank, size, "interrupted") as made:
            if rank == 0:
                made.prepare(SWAPPED)
                before = signal.signal(signal.SIGALRM, signal.default_int_handler)
                with pytest.raises(KeyboardInterrupt):
                    signal.setitimer(signal.ITIMER_REAL, 0.2)
                    made.commit()
                signal.signal(signal.SIGALRM, before)
            made.barrier()
            if rank == 1:
                made.prepare(SWAPPED)
            made.commit()
            return made.membership, total(made)

    assert ranks(2).run(body) == [(2, 3.0), (2, 3.0)]


@pytest.mark.parametrize("kind", ["hash", "file", "tcp"])
def test_a_slow_rank_takes_no_membership_back(kind, tmp_path):
    made = {
        "hash": dist.HashStore,
        "file": lambda: dist.FileStore(str(tmp_path / "store")),
        "tcp": lambda: serve_store(timeout=LIMIT),
    }[kind]()
    place = dist.PrefixStore("group", made)
    for epoch, latest in [(2, 2), (4, 4), (3, 4), (4, 4), (2, 4), (10, 10), (9, 10)]:
        group_epochs.publish(place, epoch)
        assert group_epochs.latest(place) == latest


def test_subgroups_of_members_that_have_come_and_of_those_that_stayed(ranks):
    """Those that stayed have made such a subgroup before, and tried to with one that was gone."""

    def body(rank, size):
        if rank < 2:
            made = create_group(store(), rank, 2, "subgroups", timeout=LIMIT)
            assert total(made.subgroup([0, 1])) == total(made.split(0)) == 3.0
            made.barrier()
            if rank == 1:
                made.close()
                return
            made.set_timeout(LIMIT / 100)
            assert error_of(made.subgroup, [0, 1]).is_a("DistBackendError")
            made.set_timeout(LIMIT)
            made.prepare(["0", "new"])
            made.commit()
        else:
            made = join_group(store(), ["0", "new"], "new", "subgroups", timeout=LIMIT)
        with made:
            assert total(made.subgroup([0, 1])) == total(made.split(0)) == 3.0
            made.barrier()

    ranks(3).run(body)


def test_who_waits_for_a_group_keeps_nobody_from_the_store():
    shared, results = serve_store(timeout=LIMIT), []

    def joins():
        with join_group(shared, ["0", "guest"], "guest", "late", timeout=LIMIT) as made:
            results.append(total(made))
            made.barrier()

    thread = threading.Thread(target=joins)
    thread.start()
    for _ in range(20):
        shared.set("used", "meanwhile")
        assert shared.get("used") == b"meanwhile"
        time.sleep(0.01)
    with create_group(shared, 0, 1, "late", timeout=LIMIT) as made:
        made.prepare(["0", "guest"])
        made.commit()
        assert total(made) == 3.0
        made.barrier()
        thread.join()
    assert results == [3.0]


@pytest.mark.parametrize("in_vain", [1, 3])
def test_a_late_rank_meets_one_that_has_failed_and_tries_again(ranks, in_vain):
    def body(rank, size, in_vain):
        name = f"tries again, {in_vain}"
        if rank == 0:
            assert all("1 did not join" in fails(rank, size, name).text for _ in range(in_vain))
        else:
            wait_until_they_try(name, _0=in_vain + 1)
        with group(rank, size, name) as made:
            return total(made)

    assert ranks(2).run(body, in_vain) == [3.0, 3.0]


def test_a_late_rank_hears_why_the_last_attempt_failed(ranks):
    """At once, and not of those before it."""

    def body(rank, size):
        if rank == 0:
            fails(rank, size, "last")
            raised = fails(rank, size, "last", ranks=[0, 7])
            store().set("last failed", "")
        else:
            store().wait(["last failed"], LIMIT)
            began = time.monotonic()
            raised = fails(rank, size, "last", LIMIT)
            assert time.monotonic() - began < LIMIT.total_seconds() / 4
        return raised.text

    assert all("global rank 7 did not join" in text for text in ranks(2).run(body))


def test_a_late_rank_meets_two_that_have_failed_a_different_number_of_times(ranks):
    """It finds them in different attempts, and rank 0 follows it to the last of rank 1."""

    def body(rank, size):
        if rank == 2:
            wait_until_they_try("two", _0=2, _1=3)
        for _ in range([1, 2, 0][rank]):
            fails(rank, size, "two")
        with group(rank, size, "two") as made:
            return total(made)

    assert ranks(3).run(body) == [6.0] * 3


def test_a_late_rank_meets_one_without_shared_memory_that_tries_again(ranks):
    """Who cannot share memory says so, and waits for all to take gloo: that it has done so before is not believed."""

    def body(rank, size):
        if rank == 0:
            share_no_memory()
            assert "did not come to agree on another backend" in fails(rank, size, "gloo").text
        else:
            wait_until_they_try("gloo", _0=2)
        with group(rank, size, "gloo") as made:
            return total(made)

    assert ranks(2, fresh=True, init=False).run(body) == [3.0, 3.0]


def test_who_has_met_one_that_failed_follows_it_with_the_late_rank(ranks):
    """Rank 1 waits for rank 2, and finds it before that has seen that rank 0 has failed and tries again."""

    def body(rank, size):
        if rank == 0:
            assert "2 did not join" in fails(rank, size, "three", LIMIT / 20).text
        elif rank == 2:
            wait_until_they_try("three", _0=2, _1=1)
        place = SlowToFollow(store()) if rank == 2 else store()
        with create_group(place, rank, size, "three", timeout=LIMIT) as made:
            return total(made)

    assert ranks(3).run(body) == [6.0] * 3
