"""Works of a parent's group in a forked child, where nothing carries them out."""

from __future__ import annotations

import os
import signal

import torch
import torch.distributed as dist
from harness.rank import error_of


def how_it_ends(work) -> str:
    failure = error_of(lambda: work.get_future().wait())
    result = work.get_future_result().wait()
    if failure.is_a("DistBackendError") and "this process was forked" in failure.text and result == 2:  # COMM_ERROR
        return ""
    return f"{failure}, {result}"


def test_futures_of_what_a_forked_child_inherited_end_with_the_error_that_a_wait_gives(ranks):
    def body(rank, size):
        value = torch.ones(3)
        if rank == 1:
            dist.recv(torch.empty(1), 0)
            dist.all_reduce(value)
            return
        work = dist.all_reduce(value, async_op=True)
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # the end of one that waits for ever
            wrong = how_it_ends(work)
            os.write(2, wrong.encode())
            os._exit(1 if wrong else 0)
        _, status = os.waitpid(child, 0)
        dist.send(torch.empty(1), 1)
        work.wait()
        assert value.eq(2).all()
        assert os.waitstatus_to_exitcode(status) == 0, os.waitstatus_to_exitcode(status)

    ranks(2, fresh=True).run(body)
