"""Ctrl-C anywhere in commit() or close(): called again, it ends what it began. No lock stays taken."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.interrupt import Interrupt
from shared import LIMIT, total

from torch_customccl import create_group
from torch_customccl._interrupts import InterruptibleLock

FILES = tuple(f"torch_customccl/{name}.py" for name in ("group", "group_change", "group_outcome", "_interrupts"))


def test_commit_may_be_called_again_wherever_it_was_interrupted():
    interrupted = True
    number = 0
    while interrupted:
        number += 1
        with create_group(dist.HashStore(), 0, 1, "interrupted", timeout=LIMIT) as made:
            made.prepare(["0"]).wait()
            old = made._backend
            try:
                with Interrupt(number, FILES) as interrupt:
                    made.commit()
                interrupted = interrupt.left <= 0
            except KeyboardInterrupt:
                made.commit()
            assert made.membership == 2 and made._backend is not old and total(made) == 1.0
            made.prepare(["0"])
            made.commit()
            assert made.membership == 3 and total(made) == 1.0
    assert number > 20  # else nothing was interrupted


@pytest.mark.parametrize("end", [lambda made: made.commit(), lambda made: made.close()], ids=["commit", "close"])
def test_a_group_that_ends_may_be_ended_again_wherever_that_was_interrupted(end):
    interrupted = True
    number = 0
    while interrupted:
        number += 1
        made = create_group(dist.HashStore(), 0, 1, "interrupted", timeout=LIMIT)
        made.prepare(["guest"]).wait()  # without this rank
        backend = made._backend
        try:
            with Interrupt(number, FILES) as interrupt:
                end(made)
            interrupted = interrupt.left <= 0
        except KeyboardInterrupt:
            end(made)
        assert made.closed
        with pytest.raises(dist.DistBackendError):
            backend.allreduce([torch.ones(1)]).wait()
    assert number > 5  # else nothing was interrupted


def test_a_lock_is_free_wherever_taking_it_was_interrupted():
    interrupted = True
    number = 0
    while interrupted:
        number += 1
        lock = InterruptibleLock()
        try:
            with Interrupt(number, FILES) as interrupt, lock:
                assert lock._is_owned()
            interrupted = interrupt.left <= 0
        except KeyboardInterrupt:
            pass
        assert not lock._is_owned(), number
    assert number > 2  # before it was taken, and behind that
