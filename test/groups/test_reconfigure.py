"""torch's own way to other members (2.14 and later): reconfigure(), for groups of torch.distributed and for Groups."""

from __future__ import annotations

import os
import time

import psutil
import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, hear_parent, tell_parent
from reconfiguring import THERE, exchange, go, needs_it, place_now, start, total
from shared import LIMIT

import torch_customccl


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
