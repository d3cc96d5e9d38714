"""A Coordinator that cannot do what is asked says why: ranks that do not come or do something else, bad arguments."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist
from processes import LIMIT, coordinators, fresh_launch, in_ranks, info

from torch_customccl.launch import Coordinator, LaunchInfo
from torch_customccl.launch.board import Board

SHORT = timedelta(milliseconds=300)


def test_who_does_not_come_is_named():
    launch = fresh_launch()

    def body(rank):
        coordinator = Coordinator(info(rank, 4, launch), timeout=LIMIT)
        if rank in (1, 3):
            return
        with pytest.raises(TimeoutError, match=r"barrier .* rank 1, 3 did not come within 0\.3 s"):
            coordinator.barrier(timeout=SHORT)
        with pytest.raises(RuntimeError, match="refused: this coordinator failed before: barrier"):
            coordinator.broadcast(b"")

    assert in_ranks(4, body) == [None] * 4


def test_who_never_started_is_named():
    launch = fresh_launch()

    def body(rank):
        if rank == 0:
            with pytest.raises(TimeoutError, match=r"rank 2 did not come within 3 s"):
                Coordinator(info(rank, 3, launch), timeout=timedelta(seconds=3))  # its store ends then
        elif rank == 1:
            with pytest.raises(TimeoutError, match=r"rank 2 did not come within 0\.3 s"):
                Coordinator(info(rank, 3, launch), timeout=SHORT)

    assert in_ranks(3, body) == [None] * 3
    # Who tries again meets anew.
    again = in_ranks(3, lambda rank: Coordinator(info(rank, 3, launch), timeout=LIMIT).allgather(b"!"))
    assert again == [[b"!"] * 3] * 3
    with pytest.raises(TimeoutError, match=r"rank 1 waited .* in vain for rank 0 of launch 'nobody'"):
        Coordinator(info(1, 2, "nobody"), timeout=SHORT)


def test_the_end_does_not_wait_for_who_has_not_read_what_came_before_a_failure():
    board = Board(dist.HashStore(), "board", (0, 1), 0, SHORT)
    board.broadcast("broadcast", b"which rank 1 does not read", 0)
    with pytest.raises(TimeoutError, match="rank 1 did not come"):
        board.gather("barrier", b"")
    board.wait_until_read(time.monotonic() + 3600)


def test_an_interrupt_ends_a_wait_and_the_coordinator():
    """Ctrl-C comes to the main thread: rank 0 is there, in a barrier that has no other end."""

    def interrupt():
        board = Coordinator(info(1, 2, launch), timeout=LIMIT)._world
        while not board._store.check([f"{board._round + 1}/0"]):
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    launch = fresh_launch()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
    other = threading.Thread(target=interrupt, daemon=True)
    other.start()
    try:
        coordinator = Coordinator(info(0, 2, launch), timeout=LIMIT)
        with pytest.raises(KeyboardInterrupt):
            coordinator.barrier(timeout=timedelta(hours=1))
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(RuntimeError, match="refused: this coordinator failed before: KeyboardInterrupt"):
        coordinator.barrier()
    other.join(60)


def test_different_calls_are_found():
    def body(coordinator):
        with pytest.raises(
            RuntimeError, match=r"different things.*rank . (barrier|allgather), rank . (barrier|allgather)"
        ):
            coordinator.barrier() if coordinator.rank else coordinator.allgather(b"")

    coordinators(2, body)


def test_bad_arguments():
    coordinator = Coordinator(info(0, 1, fresh_launch()))
    for call, error, says in (
        (lambda: coordinator.broadcast(b"", 1), ValueError, "src is 1, in a world of 1"),
        (lambda: coordinator.broadcast("text"), TypeError, "takes bytes, not str"),
        (lambda: coordinator.allgather(None), TypeError, "takes bytes, not NoneType"),
        (lambda: coordinator.broadcast(b"x", "0"), TypeError, "src of broadcast must be an int, not '0'"),
        (lambda: Coordinator("job"), TypeError, "launch_info of a Coordinator must be a LaunchInfo, not 'job'"),
        (lambda: Coordinator(timeout=timedelta(0)), ValueError, "must be positive"),
        (lambda: Coordinator(timeout=5), TypeError, "timeout of a Coordinator must be a datetime.timedelta, not 5"),
    ):
        with pytest.raises(error, match=says):
            call()
    assert coordinator.allgather(b"still works") == [b"still works"]


def test_a_launch_that_tells_no_place():
    with pytest.raises(ValueError, match="nothing tells where the ranks meet"):
        Coordinator(LaunchInfo.detect({"RANK": "0", "WORLD_SIZE": "2"}), timeout=SHORT)
    with pytest.raises(ValueError, match="give master_addr"):
        Coordinator(info(0, 4, "several hosts", local_size=2), timeout=SHORT)
    for variables, says in (
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "PMI_FD .unset. is no socket"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, "PMIx|libpmix"),
    ):
        with pytest.raises(ConnectionError, match=says):
            Coordinator(LaunchInfo.detect(variables), timeout=SHORT)


def test_a_forked_child_is_refused():
    def body(coordinator):
        child = os.fork()
        if child == 0:
            try:
                coordinator.barrier()
            except RuntimeError as error:
                os._exit(0 if "forked" in str(error) else 2)
            os._exit(3)
        assert os.waitpid(child, 0)[1] == 0
        coordinator.barrier()

    coordinators(1, body)


def test_limits_of_any_size_and_what_is_no_limit():
    def body(rank):
        coordinator = Coordinator(info(rank, 2, launch), timeout=timedelta.max)
        with pytest.raises(TypeError, match=r"timeout of barrier must be a datetime\.timedelta, not 5"):
            coordinator.barrier(timeout=5)
        coordinator.barrier(timeout=timedelta.max)

    launch = fresh_launch()
    assert in_ranks(2, body) == [None, None]
