"""Who tries a meeting again, or takes the place of a rank that has died, while rank 0 still waits at its door."""

from __future__ import annotations

import gc
import os
import threading
import time
from datetime import timedelta

import pytest
from processes import LIMIT, fresh_launch, in_ranks, info

from torch_customccl.launch import Coordinator, door
from torch_customccl.launch import meeting as meeting_module
from torch_customccl.launch.entrance import enter
from torch_customccl.launch.meeting import forget, meet
from torch_customccl.launch.ports import hold_port

SHORT = timedelta(milliseconds=300)
NONCES = [digit * 32 for digit in "abc"]


@pytest.fixture
def served():
    """A door, and `come(nonce)`: rank 1 knocks there. Gives the line that keeps its place."""
    listener = hold_port()
    opened = door.Door(listener, "a launch", 4711)
    opened.open()

    def come(nonce):
        port, line = door.knock(*listener.getsockname(), "a launch", nonce, 1, 60.0)
        assert port == 4711
        return line

    yield come
    opened.close()


def test_who_gave_up_comes_again_while_rank_0_waits():
    launch, gave_up = fresh_launch() + os.urandom(4).hex(), threading.Event()

    def body(rank):
        if rank == 1:
            for _ in range(2):
                with pytest.raises(TimeoutError, match=r"rank 2 did not come within 0\.3 s"):
                    Coordinator(info(rank, 3, launch), timeout=SHORT)
            gave_up.set()
        if rank == 2:
            assert gave_up.wait(60)
        return Coordinator(info(rank, 3, launch), timeout=LIMIT).allgather(b"%d" % rank)

    assert in_ranks(3, body) == [[b"0", b"1", b"2"]] * 3


def test_a_process_is_known_again_whatever_became_of_its_attempts():
    """An interrupt may leave the line of one in a traceback."""
    launch = fresh_launch() + os.urandom(4).hex()
    meeting = meet(info(0, 2, launch), LIMIT)
    lines = [enter(info(1, 2, launch), None, LIMIT, time.monotonic() + 60)[1] for _ in range(2)]
    another = info(1, 2, launch, node_rank=0)  # another record: another process, for all that rank 0 can tell
    for line in lines:
        with pytest.raises(ConnectionError, match=r"rank 1 is here already\. Two processes were given the same rank"):
            enter(another, None, LIMIT, time.monotonic() + 60)
        line.close()
    enter(another, None, LIMIT, time.monotonic() + 60)[1].close()
    forget(meeting)


def test_a_place_is_free_when_its_line_has_ended(served):
    """As at the death of its process. Until then it belongs to one process."""
    first = served(NONCES[0])
    with pytest.raises(door.RefusedError, match="rank 1 is here already"):
        served(NONCES[1])
    first.close()
    second = served(NONCES[1])
    with pytest.raises(door.RefusedError, match="rank 1 is here already"):
        served(NONCES[0])
    second.close()


def test_who_has_met_keeps_its_place(served):
    """Rank 0 may learn later that all are in: who comes in between is no successor."""
    line = served(NONCES[0])
    door.stay(line)
    line.close()
    with pytest.raises(door.RefusedError, match="rank 1 is here already"):
        served(NONCES[1])


def test_who_was_killed_is_replaced_while_rank_0_waits(ranks):
    def waits(rank, size, launch):
        Coordinator(info(1, 2, launch), timeout=LIMIT)

    launch = fresh_launch() + os.urandom(4).hex()
    store = meet(info(0, 2, launch), LIMIT).store
    victim = ranks(1, fresh=True, init=False)
    victim.start(waits, launch)
    while not store.check([f"customccl/{launch}/0/roll call/letter/1"]):
        time.sleep(0.001)
    victim.kill(0)
    victim.wait_for_death(0)
    assert (
        in_ranks(2, lambda rank: Coordinator(info(rank, 2, launch), timeout=LIMIT).allgather(b"!")) == [[b"!"] * 2] * 2
    )


def interrupted(function, *, before):
    """Calls `function`; a Ctrl-C comes just before, or when it has done its work."""

    def call(*arguments):
        if not before:
            function(*arguments)  # what it gives is lost
        raise KeyboardInterrupt

    return call


INTERRUPTS = {
    "when the store is served": (meeting_module, "_open_store", False),
    "when the meeting is made": (meeting_module, "_meet", False),
    "before the door is open": (door.Door, "open", True),
    "when the door is open": (door.Door, "open", False),
    "before the door is closed": (door.Door, "close", True),
    "when the door is closed": (door.Door, "close", False),
}


@pytest.mark.parametrize("moment", INTERRUPTS)
def test_an_interrupt_of_rank_0_leaves_no_door_that_keeps_the_next_attempt_out(moment, monkeypatch):
    place, name, before = INTERRUPTS[moment]
    launch = fresh_launch() + os.urandom(4).hex()
    with hold_port() as probe:
        port = probe.getsockname()[1]
    threads = set(threading.enumerate())
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(place, name, interrupted(getattr(place, name), before=before))
        Coordinator(info(0, 2, launch, master_port=port), timeout=SHORT)
    gc.collect()

    def body(rank):
        return Coordinator(info(rank, 2, launch, master_port=port), timeout=LIMIT).allgather(b"%d" % rank)

    assert in_ranks(2, body) == [[b"0", b"1"]] * 2
    assert not [thread for thread in set(threading.enumerate()) - threads if thread.name == "customccl-door"]
