"""reconfigure() when ranks are late, differ, were left out, or die."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, hear_parent, in_a_while, tell_parent
from reconfiguring import exchange, go, needs_it, place_now, start, store_at, total
from shared import LIMIT, store


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
        heard = []
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        backend.register_abort_hook(0, lambda: heard.append(rank))
        for attempt in range(2, 4):
            backend.abort()
            assert error_of(dist.barrier).is_a("DistBackendError")
            assert in_a_while(lambda attempt=attempt: len(heard) == attempt - 1)
            go(attempt, handles)
            assert place_now() == (rank, 2, 3.0)
        return heard

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
