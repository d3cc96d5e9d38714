"""What a limit that passes does to messages, to whoever waits for them, and to the group."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from harness.rank import error_of, hear_parent, tell_parent
from shared import LIMIT, group, store

from torch_customccl import create_group


def test_messages_wait_for_a_reader_up_to_a_limit(ranks):
    """The ring holds some, then the sender waits; nothing is lost or reordered."""

    def body(rank, size):
        with group(rank, size, "pressure") as made:
            if rank == 0:
                for number in range(2000):
                    made.send_message([number, b"x" * 20_000], 1)
                    if number == 5:
                        tell_parent("sending")
            else:
                assert hear_parent() == "go"
                for number in range(2000):
                    assert made.recv_message(0)[0] == number

    workers = ranks(2, fresh=True)
    workers.start(body)
    workers.wait_for(0, "sending")
    workers.tell(1, "go")
    assert [outcome.value for outcome in workers.finish()] == [None, None]


def test_a_timeout_loses_nothing_and_leaves_the_group_as_it_is(ranks):
    def body(rank, size):
        with group(rank, size, "timeout") as made:
            if rank == 0:
                raised = error_of(made.recv_message, 1, timeout=timedelta(milliseconds=100))
                made.barrier()
                assert made.recv_message(1) == "late"
                return raised
            made.barrier()
            return made.send_message("late", 0)

    raised = ranks(2).run(body)[0]
    assert raised.is_a("TimeoutError")
    assert "no message came within 100 ms with tag 0 from rank 1" in raised.text and "goes on" in raised.text


def test_a_limit_of_nothing_takes_what_is_there_and_does_not_wait(ranks):
    """Before, it meant the limit of the group, which here is longer than the test may run."""

    def body(rank, size):
        with create_group(store(), rank, size, "limits", timeout=timedelta(hours=1)) as made:
            for limit in (timedelta(0), timedelta(microseconds=999), timedelta(seconds=-5)):
                if rank == 0:
                    assert error_of(made.recv_message, 1, timeout=limit).is_a("TimeoutError")
                    made.barrier()
                    made.barrier()
                    assert made.recv_message(1, timeout=limit) == "there"
                else:
                    made.barrier()
                    made.send_message("there", 0)
                    made.barrier()
                made.barrier()
            refused = error_of(made.send_message, "late", 1 - rank, timeout=timedelta(0))
            assert refused.is_a("ValueError") and "must be positive" in refused.text
            assert error_of(made.endpoint, "nobody's", timeout=timedelta(0)).is_a("DistStoreError")
            assert error_of(made.prepare, ["0", "1"], timeout=timedelta(0)).is_a("ValueError")
            made.barrier()

    ranks(2).run(body)


def test_a_broadcast_that_timed_out_is_received_by_the_next_call(ranks):
    def body(rank, size):
        with group(rank, size, "late") as made:
            if rank == 0:
                made.barrier()
                return [made.broadcast_message(text) for text in ("A", "B")]
            late = error_of(made.broadcast_message, None, timeout=timedelta(milliseconds=20)).text
            assert "20 ms by broadcast_message() from rank 0" in late and "the next call gets it" in late
            made.barrier()
            return [made.broadcast_message(), made.broadcast_message()]

    assert ranks(2).run(body) == [["A", "B"]] * 2


def test_the_limit_of_a_broadcast_is_for_all_receivers_together(ranks):
    """Each of them takes the large message later than the one before, within the limit of its own."""
    limit = LIMIT / 10

    def body(rank, size):
        with group(rank, size, "one limit") as made:
            made.barrier()
            if rank == 0:
                return error_of(made.broadcast_message, torch.ones(1 << 20), timeout=limit)
            time.sleep(rank * 0.7 * limit.total_seconds())
            with contextlib.suppress(dist.DistBackendError):
                made.broadcast_message()
            return None

    raised = ranks(4).run(body)[0]
    assert raised.is_a("DistBackendError") and "the timeout passed" in raised.text, raised


def test_whoever_waits_with_a_limit_when_a_member_dies_hears_of_the_limit_or_of_the_death(ranks):
    """The limits of many threads pass at the moment of the death."""

    def body(rank, size):
        made = group(rank, size, "dying")
        made.barrier()
        tell_parent("made")
        if rank == 1:
            hear_parent()
        raised = []

        def listens():
            while not raised or raised[-1].is_a("TimeoutError"):
                raised.append(error_of(made.recv_message, 1, timeout=timedelta(milliseconds=1)))

        threads = [threading.Thread(target=listens) for _ in range(60)]
        for thread in threads:
            thread.start()
        tell_parent("listens")
        for thread in threads:
            thread.join()
        return [error for error in raised if not error.is_a("TimeoutError") and "rank 1" not in error.text]

    workers = ranks(2, fresh=True, init=False)
    workers.start(body)
    for rank in range(2):
        workers.wait_for(rank, "made")
    workers.wait_for(0, "listens")
    workers.kill(1)
    assert workers.finish()[0].value == []
