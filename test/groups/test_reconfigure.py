"""torch's own way to other members (2.14 and later): reconfigure(), for groups of torch.distributed and for Groups."""

from __future__ import annotations

import os
import time

import psutil
import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, hear_parent, tell_parent
from shared import LIMIT, store

import torch_customccl

THERE = hasattr(dist.ProcessGroup, "reconfigure")
needs_it = pytest.mark.skipif(not THERE, reason=f"torch {torch.__version__} has no reconfigure; 2.14 and later have")


def start(rank, size, place=None):
    """A default group that has met nobody."""
    place = place or store()
    dist.init_process_group(
        "customccl", store=place, rank=rank, world_size=size, timeout=LIMIT, enable_reconfigure=True
    )
    return place


def exchange(place, key, rank, size, handle=None):
    """The handles of all, by rank."""
    place.set(f"{key}/{rank}", handle or dist._get_reconfigure_handle())
    return [place.get(f"{key}/{each}").decode() for each in range(size)]


def go(uuid, handles, group=None, timeout=LIMIT):
    assert dist._reconfigure(uuid, handles, group=group, timeout=timeout).wait()


def total(group=None):
    x = torch.tensor([(dist.get_rank() if group is None else group.rank()) + 1.0])
    dist.all_reduce(x, group=group)
    return x.item()


def place_now():
    return dist.get_rank(), dist.get_world_size(), total()


def store_at(port):
    return dist.PrefixStore("reconfigured", dist.TCPStore("127.0.0.1", port, is_master=False))


@needs_it
def test_a_group_that_has_met_nobody_refuses_until_it_is_told_whom(ranks):
    def body(rank, size):
        start(0, 3)
        assert dist._supports_reconfigure()
        assert (dist.get_rank(), dist.get_world_size()) == (0, 3)
        early = error_of(dist.barrier)
        own = dist._get_reconfigure_handle()
        assert own == dist._get_reconfigure_handle()
        unknown = [error_of(go, number, bad) for number, bad in enumerate(([], [own, own], ["me"], [own, "me"]))]
        go(7, [own])
        assert place_now() == (0, 1, 1.0)
        again = error_of(go, 7, [own])
        bad_limit = error_of(go, 9, [own], timeout=0 * LIMIT)
        go(8, {own})
        return early, unknown, again, bad_limit, place_now()

    early, unknown, again, bad_limit, place = ranks(1, fresh=True, init=False).run(body)[0]
    assert early.is_a("DistBackendError") and "has met nobody yet. Call reconfigure()" in early.text, early.text
    assert all(raised.is_a("ValueError") for raised in unknown), unknown
    assert again.is_a("DistBackendError") and "uuid 7 was already used" in again.text
    assert bad_limit.is_a("ValueError") and "must be positive" in bad_limit.text
    assert place == (0, 1, 1.0)


@needs_it
def test_a_list_says_the_ranks(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        go(1, handles)
        assert place_now() == (rank, 3, 6.0)
        received = torch.zeros(4)
        works = [dist.isend(torch.full((4,), float(rank)), (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
        for work in works:
            work.wait()
        assert received.tolist() == [(rank - 1) % size] * 4
        go(2, handles[::-1])
        return place_now()

    assert ranks(3, fresh=True, init=False).run(body) == [(2, 3, 6.0), (1, 3, 6.0), (0, 3, 6.0)]


@needs_it
def test_a_set_gets_ranks_that_all_agree_on(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        go(1, set(handles))
        everybody = [None] * size
        dist.all_gather_object(everybody, dist._get_reconfigure_handle())
        assert sorted(everybody) == sorted(handles)
        return place_now()

    assert sorted(ranks(3, fresh=True, init=False).run(body)) == [(0, 3, 6.0), (1, 3, 6.0), (2, 3, 6.0)]


@needs_it
def test_memberships_shrink_grow_part_and_merge(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        together = ([0, 1, 2], [0, 1, 2], [0, 1], [2, 0, 1], [0, 2], [1, 2], [2, 1, 0])
        parted = ([[0], [1], [2]], [[0], [1, 2]], [[0, 1, 2]], [[1, 0], [2]], [[0, 1, 2]])
        for step, groups in enumerate([[members] for members in together] + list(parted)):
            for number, members in enumerate(groups):
                if rank in members:
                    go(10 * step + number, [handles[member] for member in members])
                    count = len(members)
                    assert place_now() == (members.index(rank), count, count * (count + 1) / 2)

    ranks(3, fresh=True, init=False).run(body)


@needs_it
def test_many_memberships_leave_nothing_behind(ranks, figure):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        process, counts, began = psutil.Process(), [], 0.0
        for uuid in range(60):
            go(uuid, handles if uuid % 2 else handles[::-1])
            assert total() == 3.0
            if uuid == 9:
                counts.append((process.num_fds(), process.num_threads()))
                began = time.perf_counter()
        took = (time.perf_counter() - began) / 50
        counts.append((process.num_fds(), process.num_threads()))
        return counts, took

    for (early, late), took in ranks(2, fresh=True, init=False).run(body):
        assert early == late
        figure("ms of a reconfigure", 1e3 * took)


@needs_it
def test_a_forked_child_is_refused(ranks):
    def body(rank, size):
        start(rank, size)
        own = dist._get_reconfigure_handle()
        child = os.fork()
        if child == 0:
            refused = [error_of(dist._get_reconfigure_handle), error_of(go, 1, [own])]
            os._exit(0 if all("was forked from the one" in raised.text for raised in refused) else 1)
        assert os.waitpid(child, 0)[1] == 0
        go(1, [own])
        return total()

    assert ranks(1, fresh=True, init=False).run(body) == [1.0]


@needs_it
def test_a_group_that_was_made_as_always_can_be_reconfigured_too(ranks):
    def body(rank, size):
        dist.init_process_group("customccl", store=store(), rank=rank, world_size=size, timeout=LIMIT)
        assert total() == 6.0
        go(1, exchange(store(), "handles", rank, size)[::-1])
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert (backend.rank(), backend.size()) == (2 - rank, 3)
        assert backend.options.global_ranks_in_group == [0, 1, 2]
        return total()

    assert ranks(3, fresh=True, init=False).run(body) == [6.0] * 3


@needs_it
def test_who_does_not_come_is_named_and_nothing_has_changed(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        go(1, handles)
        raised = error_of(go, 2, handles[::-1], timeout=LIMIT / 100) if rank == 0 else None
        assert place_now() == (rank, 3, 6.0)
        go(3, handles[::-1])
        assert place_now() == (2 - rank, 3, 6.0)
        return raised

    raised = ranks(3, fresh=True, init=False).run(body)[0]
    assert raised.is_a("DistBackendError")
    assert "rank 0 did not join" in raised.text and "did not come, nor did rank 1 (after" in raised.text, raised.text


@needs_it
def test_other_handles_under_one_uuid_are_found(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        raised = error_of(go, 1, handles if rank == 0 else handles[::-1])
        go(2, handles)
        return raised, place_now()

    for raised, place in ranks(2, fresh=True, init=False).run(body):
        assert raised.is_a("DistBackendError") and "other handles" in raised.text, raised.text
        assert place[1:] == (2, 3.0)


@needs_it
def test_works_of_the_old_membership_fail_clearly(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        go(1, handles)
        never = dist.irecv(torch.zeros(1), 1 - rank)
        go(2, handles)
        assert never.is_completed()
        raised = error_of(never.wait)
        assert total() == 3.0
        return raised

    for raised in ranks(2, fresh=True, init=False).run(body):
        assert raised.is_a("DistBackendError"), raised
        assert "reconfigure() has given the group other members" in raised.text, raised.text


@needs_it
def test_who_was_left_out_hears_of_it_and_may_come_back(ranks):
    def body(rank, size):
        place = start(rank, size)
        handles = exchange(place, "handles", rank, size)
        go(1, handles)
        raised = None
        if rank == 2:
            raised = error_of(dist.barrier)
        else:
            go(2, handles[:2])
            assert place_now() == (rank, 2, 3.0)
        go(3, handles)
        return raised, place_now()

    outcomes = ranks(3, fresh=True, init=False).run(body)
    raised = outcomes[2][0]
    assert raised.is_a("DistBackendError") and "destroyed the group" in raised.text, raised.text
    assert [place for _, place in outcomes] == [(0, 3, 6.0), (1, 3, 6.0), (2, 3, 6.0)]


@needs_it
def test_after_abort(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        go(1, handles)
        hooks = []
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        backend.register_abort_hook(0, lambda: hooks.append(rank))
        for attempt in range(2, 4):
            backend.abort()
            assert error_of(dist.barrier).is_a("DistBackendError")
            go(attempt, handles)
            assert place_now() == (rank, 2, 3.0)
        return hooks

    assert ranks(2, fresh=True, init=False).run(body) == [[0, 0], [1, 1]]


@needs_it
@pytest.mark.usefixtures("nothing_left")
def test_a_killed_rank_is_replaced_by_a_new_process(ranks):
    """kill -9 of rank 1; the survivors go on alone, then with a process that starts only now."""

    def survivor(rank, size, port):
        place = 2 * rank  # 0 and 2
        shared = start(place, 3, store_at(port))
        handles = exchange(shared, "first", place, 3)
        go(1, handles)
        if rank == 0:
            tell_parent("kill")
        raised = error_of(lambda: [total() for _ in range(1_000_000)])
        assert raised.is_a("DistBackendError") and "rank 1" in raised.text, raised.text
        dead = error_of(go, 2, handles)
        go(3, [handles[0], handles[2]])
        assert place_now() == (rank, 2, 3.0)
        if rank == 0:
            tell_parent("alone")
        go(4, [handles[0], shared.get("second/1").decode(), handles[2]])
        assert place_now() == (place, 3, 6.0)
        return dead

    def victim(rank, size, port):
        go(1, exchange(start(1, 3, store_at(port)), "first", 1, 3))
        while True:
            total()

    def successor(rank, size, port):
        shared = start(1, 3, store_at(port))
        shared.set("second/1", dist._get_reconfigure_handle())
        handles = [shared.get(f"first/{each}").decode() for each in (0, 2)]
        go(4, [handles[0], dist._get_reconfigure_handle(), handles[1]])
        assert place_now() == (1, 3, 6.0)
        hear_parent()

    port = ranks.pool.store_port
    survivors = ranks(2, fresh=True, init=False)
    first = ranks(1, fresh=True, init=False)
    first.start(victim, port)
    survivors.start(survivor, port)
    survivors.wait_for(0, "kill")
    first.kill(0)
    survivors.wait_for(0, "alone")
    second = ranks(1, fresh=True, init=False)
    second.start(successor, port)
    for outcome in survivors.finish():
        text = outcome.value.text
        assert "rank 1 did not join: process" in text or "because of rank 1" in text, text
    second.tell(0, "end")
    assert second.finish()[0].value is None


@needs_it
def test_groups_without_any_store_in_common(ranks):
    """Each process makes a Group of its own in a store of its own; the handles travel by the test's pipes."""

    def body(rank, size):
        made = torch_customccl.create_group(dist.HashStore(), 0, 1, "alone", timeout=LIMIT)
        tell_parent("handle", made.get_reconfigure_handle())
        handles = hear_parent()
        with made:
            go(1, handles, group=made)
            assert (made.rank(), made.size(), made.membership) == (rank, 3, 2)
            assert (made.members, made.ranks) == (["0", "1", "2"], [0, 1, 2])
            assert total(made) == 6.0
            made.send_message({"from": rank}, (rank + 1) % size)
            assert made.recv_message((rank - 1) % size) == {"from": (rank - 1) % size}
            return error_of(made.prepare, ["0"])

    workers = ranks(3, fresh=True, init=False)
    workers.start(body)
    handles = [workers.wait_for(rank, "handle") for rank in range(3)]
    for rank in range(3):
        workers.tell(rank, handles)
    for outcome in workers.finish():
        assert "only reconfigure() changes it" in outcome.value.text


@needs_it
def test_children_of_a_reconfigured_group(ranks):
    def body(rank, size):
        handles = exchange(start(rank, size), "handles", rank, size)
        go(1, handles[::-1])
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        seen = []
        for uuid in (2, 3):
            if backend.rank() != 1:
                child = backend.shrink([1])
                x = torch.ones(1)
                child.allreduce([x]).wait()
                seen.append((child.rank(), child.size(), x.item()))
            go(uuid, handles[::-1])
        return seen

    assert ranks(3, fresh=True, init=False).run(body) == [[(1, 2, 2.0)] * 2, [], [(0, 2, 2.0)] * 2]


@pytest.mark.skipif(THERE, reason="this torch has reconfigure")
def test_an_older_torch_is_told_so():
    with torch_customccl.create_group(dist.HashStore(), 0, 1, "old", timeout=LIMIT) as made:
        with pytest.raises(NotImplementedError, match=r"has no reconfigure.*use prepare\(\) and commit\(\)"):
            made.reconfigure(None)
        assert made.membership == 1
