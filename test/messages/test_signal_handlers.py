"""Handlers of signals run while a receive waits in the main thread, and use its group."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from harness.rank import error_of
from shared import group


@contextmanager
def soon(handler: Callable[[], object]) -> Iterator[None]:
    """The handler runs in a moment; most probably what is called within waits then."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_receives_reduces_and_sends(ranks):
    def body(rank, size):
        made, got = group(rank, size, "used by a handler"), []
        x = torch.tensor([rank + 1.0])

        def handler():
            got.append(made.recv_message(1))
            made.all_reduce(x)
            made.send_message("seen", 1)

        if rank == 0:
            with soon(handler):
                got.append(made.recv_message(1, tag=5))
            assert got == ["for the handler", "for who waited"]
        else:
            made.send_message("for the handler", 0)
            made.all_reduce(x)
            assert made.recv_message(0) == "seen"
            made.send_message("for who waited", 0, tag=5)
        assert x.item() == 3
        made.close()

    ranks(2).run(body)


@pytest.mark.parametrize("src", [1, None], ids=["named", "anybody"])
def test_a_handler_closes_the_group(ranks, src):
    def body(rank, size, src):
        made = group(rank, size, "closed by a handler")

        def handler():
            made.send_message("closing", 1)
            made.close()

        if rank == 0:
            with soon(handler):
                error = error_of(made.recv_message, src)
            assert "the group was destroyed on this rank" in error.text
            assert made.closed
        else:
            assert made.recv_message(0) == "closing"
        made.close()

    ranks(2).run(body, src)


def test_what_a_handler_raises_ends_the_receive_and_loses_no_message(ranks):
    def body(rank, size):
        made = group(rank, size, "left by a handler")

        def handler():
            made.send_message("leaving", 1)
            raise LookupError("from the handler")

        if rank == 0:
            with soon(handler):
                assert error_of(made.recv_message, 1).text == "from the handler"
            assert made.recv_message(1) == "later"
        else:
            assert made.recv_message(0) == "leaving"
            made.send_message("later", 0)
        made.close()

    ranks(2).run(body)
