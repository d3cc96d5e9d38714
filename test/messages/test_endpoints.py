"""Endpoints while members change and other threads work."""

from __future__ import annotations

import threading
import time

import pytest
import torch.distributed as dist
from harness.rank import error_of, hear_parent, tell_parent
from shared import LIMIT, group

from torch_customccl import create_group, serve_store


def test_who_waits_for_an_endpoint_keeps_nobody_from_the_store():
    """One thread waits for what another one of the process opens, with the same store."""
    found = []
    with create_group(serve_store(timeout=LIMIT), 0, 1, "one store", timeout=LIMIT) as made:
        thread = threading.Thread(target=lambda: found.append(made.endpoint("job", timeout=LIMIT)))
        thread.start()
        for _ in range(20):
            made.own_store.set("used", "meanwhile")
            assert made.own_store.get("used") == b"meanwhile"
            time.sleep(0.01)
        made.open_endpoint("job")
        thread.join()
    assert found[0].name == "job"


def test_an_endpoint_of_one_who_has_left_is_awaited_until_a_member_opens_it(ranks):
    def body(rank, size):
        with group(rank, size, "successor") as made:
            if rank == 2:
                made.open_endpoint("work")
            made.barrier()
            made.prepare(["0", "1"])
            made.commit()
            if rank == 2:
                return None
            if rank == 1:
                raised = error_of(made.endpoint, "work", timeout=LIMIT / 100)
                made.send_message("I have looked", 0)
                made.endpoint("work").send("job")
                made.barrier()
                return raised
            assert made.recv_message(1) == "I have looked"
            assert made.open_endpoint("work").recv() == "job"
            return made.barrier()

    raised = ranks(3).run(body)[1]
    assert raised.is_a("DistStoreError") and "no rank of group 'successor' has opened endpoint 'work'" in raised.text


def test_who_waits_for_an_endpoint_learns_that_the_group_was_closed():
    made = create_group(dist.HashStore(), 0, 1, "closing", timeout=LIMIT)
    closing = threading.Timer(0.05, made.close)
    closing.start()
    with pytest.raises(RuntimeError, match=r"endpoint\(\) of group 'closing', which was closed on this rank"):
        made.endpoint("nobody's")
    closing.join()


def test_probing_a_closed_group_is_refused_as_a_receive_is():
    made = create_group(serve_store(timeout=LIMIT), 0, 1, "closed", timeout=LIMIT)
    made.close()
    for look in (made.probe_message, lambda: made.recv_message(0)):
        with pytest.raises(dist.DistBackendError, match=r'customccl: recv on group "closed" refused: .* was destroyed'):
            look()


@pytest.mark.parametrize("call", ["endpoint", "probe"])
def test_who_looks_for_something_learns_that_a_member_died(ranks, call):
    def body(rank, size, call):
        made = group(rank, size, "dying")
        made.barrier()
        tell_parent("made")
        if rank == 1:
            hear_parent()

        def look() -> None:
            if call == "endpoint":
                made.endpoint("rank 1 would open it", timeout=LIMIT)
            while made.probe_message() is None:
                time.sleep(0.001)

        return [error_of(look) for _ in range(2)]

    workers = ranks(2, fresh=True, init=False)
    workers.start(body, call)
    for rank in range(2):
        workers.wait_for(rank, "made")
    workers.kill(1)
    outcome = workers.finish()[0]
    for raised in outcome.value:
        assert raised.is_a("DistBackendError") and "rank 1" in raised.text, raised.text


def test_a_send_beside_commit_reaches_the_owner_or_raises(ranks):
    """The other thread loses its processor when it knows the owner's rank, and the members change then."""

    def body(rank, size):
        with group(rank, size, "beside commit") as made:
            own = made.open_endpoint(f"of {rank}")
            made.barrier()
            there, go_on, raised = threading.Event(), threading.Event(), []
            other = made.endpoint("of 1")
            original = made._send_over

            def is_late(*args):
                there.set()
                go_on.wait(LIMIT.total_seconds())
                original(*args)

            made._send_over = is_late
            thread = threading.Thread(target=lambda: raised.append(error_of(other.send, "for member 1")))
            if rank == 0:
                thread.start()
                there.wait(LIMIT.total_seconds())
            made.prepare(["1", "0"])
            made.commit()
            if rank == 0:
                go_on.set()
                thread.join()
            made.barrier()
            astray = made._probe_tagged(None, other._tag) if rank == 0 else None
            made.barrier()
            return own.owner, raised, astray

    (_, (raised,), astray), (owner, _, _) = ranks(2).run(body)
    assert owner == 0 and astray is None
    assert raised.is_a("DistBackendError"), raised
