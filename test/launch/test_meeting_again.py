"""Who tries a meeting again, or takes the place of a rank that has died, while rank 0 still waits at its door."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist
from processes import LIMIT, fresh_launch, in_ranks, info
from strangers import stranger

from torch_customccl.launch import Coordinator, door
from torch_customccl.launch import meeting as meeting_module
from torch_customccl.launch.entrance import enter
from torch_customccl.launch.meeting import forget, meet
from torch_customccl.launch.places import launch_key
from torch_customccl.launch.ports import hold_port
from torch_customccl.launch.store_client import AbsentError, connect_store

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


def test_an_interrupt_of_rank_0_when_all_have_met_leaves_its_door_to_the_next_coordinator(monkeypatch):
    launch = fresh_launch() + os.urandom(4).hex()
    threads = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(door.Door, "close", interrupted(door.Door.close, before=True))
        first = in_ranks(2, lambda rank: Coordinator(info(rank, 2, launch), timeout=LIMIT))
    assert isinstance(first[0], KeyboardInterrupt) and isinstance(first[1], Coordinator)
    again = in_ranks(2, lambda rank: Coordinator(info(rank, 2, launch), timeout=LIMIT).allgather(b"!"))
    assert again == [[b"!"] * 2] * 2
    assert not [thread for thread in set(threading.enumerate()) - threads if thread.name == "customccl-door"]


class OutdatedBoard:
    """A launcher's board that first tells where rank 0 was in an attempt that failed."""

    def __init__(self, port):
        self._places, self._was_seen = [f"{port}@127.0.0.1"], threading.Event()

    def publish(self, name, value, limit_s):
        self._places.append(value)

    def lookup(self, name, limit_s):
        if not self._was_seen.is_set():
            self._was_seen.set()
            return self._places[0]
        return self._places[-1]

    def wait_until_looked_at(self):
        assert self._was_seen.wait(60)


def closing_door(launch):
    """It hangs up on who stands before it."""
    return stranger(lambda line: line.close())


@contextlib.contextmanager
def door_without_a_store(launch):
    """As of a rank 0 that gives up, or dies, when it has answered."""
    with hold_port() as gone:
        store_port = gone.getsockname()[1]
    listener = hold_port()
    opened = door.Door(listener, launch_key(info(0, 2, launch)), store_port)
    opened.open()
    yield listener.getsockname()[1]
    opened.close()


@pytest.mark.parametrize("left", [closing_door, door_without_a_store])
def test_who_finds_a_rank_0_that_gave_up_looks_again(left, monkeypatch):
    launch = fresh_launch()
    with left(launch) as port:
        board = OutdatedBoard(port)
        monkeypatch.setattr(meeting_module, "_launchers_board", lambda info: board)

        def rank(number):
            if number == 0:
                board.wait_until_looked_at()
            Coordinator(info(number, 2, launch), timeout=LIMIT).barrier()

        assert in_ranks(2, rank) == [None, None]


def test_who_is_gone_is_no_stranger_and_is_not_waited_for():
    with hold_port() as gone:
        port = gone.getsockname()[1]
    with pytest.raises(AbsentError, match=f"no store at 127.0.0.1:{port}: .*refused"):
        connect_store("127.0.0.1", port, LIMIT, time.monotonic() + 60)


def test_a_store_is_connected_to_in_what_is_left_of_the_limit(monkeypatch):
    """Its own timeout is for what it is asked later."""
    limits, connect = [], dist.TCPStore

    def recorded(host, port, size, master, timeout, **more):
        limits.append(timeout)
        return connect(host, port, size, master, timeout, **more)

    server = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    monkeypatch.setattr(dist, "TCPStore", recorded)
    client = connect_store("127.0.0.1", server.port, timedelta(hours=1), time.monotonic() + 60)
    assert len(limits) == 1 and limits[0] <= timedelta(seconds=60) and client.timeout == timedelta(hours=1)
