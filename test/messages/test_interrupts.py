"""What a signal's handler raises ends a receive, and loses no message, whenever it comes."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, tell_parent
from shared import LIMIT, group

from torch_customccl import create_group


class FromHandlerError(Exception):
    pass


def raises(*_):
    raise FromHandlerError


@contextmanager
def handled_by(handler):
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_message_that_comes_right_after_the_signal_is_kept(alone):
    """Both come while the receive waits between two looks whether a handler is to be run."""
    with handled_by(raises):
        for turn in range(20):
            received = threading.Event()

            def comes(turn=turn):
                time.sleep(0.002 * turn)
                os.kill(os.getpid(), signal.SIGUSR1)
                alone.send_message(turn, 0)

            thread = threading.Thread(target=comes)
            thread.start()
            with pytest.raises(FromHandlerError):
                alone.recv_message(0)
                received.wait(LIMIT.total_seconds())  # all of it has come before the signal was looked at
            thread.join()
            assert alone.recv_message(0) == turn


@pytest.mark.parametrize("whole", [True, False])
def test_handlers_run_while_a_large_message_comes_and_it_is_kept(ranks, whole):
    """Its sender is stopped meanwhile."""
    count = 50_000_000

    def body(rank, size, whole):
        made = group(rank, size, "large")
        value = [torch.arange(count, dtype=torch.int32), LookupError if whole else "no pickle"]
        if rank == 1:
            made.barrier()
            tell_parent("sends")
            made.send_message(value, 0)
            made.send_message("second", 0)
            made.barrier()
            return None

        def handler(*_):
            tell_parent("handler")
            raises()

        def receives():
            made.barrier()
            made.recv_message(1)

        with handled_by(handler):
            tell_parent("ready")
            raised = error_of(receives)
        got, other = made.recv_message(1)
        assert torch.equal(got, value[0]) and other == value[1]
        assert made.recv_message(1) == "second"
        made.barrier()
        return raised

    workers = ranks(2, fresh=True, init=False)
    workers.start(body, whole)
    workers.wait_for(0, "ready")
    workers.wait_for(1, "sends")
    workers.send_signal(1, signal.SIGSTOP)
    workers.send_signal(0, signal.SIGUSR1)
    workers.wait_for(0, "handler", LIMIT.total_seconds() / 2)
    workers.send_signal(1, signal.SIGCONT)
    outcome = workers.finish()[0]
    assert outcome.value.is_a("FromHandlerError"), outcome


def test_the_main_thread_of_a_forked_child_is_the_one_that_forked(ranks):
    """Handlers run there; it may be another one of the parent's."""

    def body(rank, size):
        codes = []

        def forks():
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGALRM, raises)
                with create_group(dist.HashStore(), 0, 1, "of the child", timeout=LIMIT) as made:
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    raised = error_of(made.recv_message, 0, timeout=LIMIT / 10)
                os._exit(0 if raised.is_a("FromHandlerError") else 1)
            codes.append(os.waitpid(child, 0)[1])

        thread = threading.Thread(target=forks)
        thread.start()
        thread.join()
        return codes

    assert ranks(1, fresh=True, init=False).run(body) == [[0]]
