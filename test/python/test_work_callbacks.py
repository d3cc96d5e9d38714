"""User code that runs when a work ends: whoever asks about the work meanwhile gets an answer, and waits for no code."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, group_works, hear_parent, subgroup, tell_parent

LIMIT_S = 20.0


class Interlude:
    """Called by the backend's thread, stays until the main thread has asked what it wants to know."""

    def __init__(self) -> None:
        self.entered, self.asked, self.left = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.entered.set()
        if self.asked.wait(LIMIT_S):
            self.left.set()


@pytest.mark.parametrize("place", ["the completion hook", "the result's callback", "the future's callback"])
def test_a_work_is_over_for_everybody_while_user_code_still_hears_of_it(ranks, place):
    """Python's lock is held by who asks, and wanted by the callback: neither may wait for the other."""

    def body(rank, size):
        interlude = Interlude()
        with subgroup() as group:
            if rank == 0 and place == "the completion hook":
                group._register_on_completion_hook(interlude)
            if rank == 1:
                hear_parent()
            value = torch.full((3,), float(rank + 1))
            work = dist.all_reduce(value, group=group, async_op=True)
            if rank == 0:
                future, result = work.get_future(), work.get_future_result()
                if place == "the result's callback":
                    result.add_done_callback(interlude)
                elif place == "the future's callback":
                    future.add_done_callback(interlude)
                tell_parent("posted")
                assert interlude.entered.wait(LIMIT_S)
                while not work.is_completed():
                    pass
                assert future.done() and result.done() and work.is_success()
                work.wait()
                assert work.get_future() is not None and work.get_future_result().value() == 0
                interlude.asked.set()
            else:
                work.wait()
            assert value.tolist() == [3.0] * 3
        assert rank == 1 or interlude.left.wait(LIMIT_S)

    workers = ranks(2)
    workers.start(body)
    workers.wait_for(0, "posted")
    workers.tell(1, "on")
    outcomes = workers.finish()
    assert all(hasattr(outcome, "value") for outcome in outcomes), outcomes


def test_callbacks_may_wait_for_the_work_that_they_hear_of(ranks):
    def body(rank, size):
        for count in (1, 3000, 300_000):
            heard = []
            work = dist.all_reduce(torch.ones(count), async_op=True)
            future, result = work.get_future(), work.get_future_result()
            for each in (future, result):
                each.add_done_callback(
                    lambda _, work=work, heard=heard: heard.append(work.wait() and work.is_completed())
                )
            work.wait()
            dist.barrier()
            future.wait(), result.wait()
            while len(heard) < 2:  # callbacks may end after the wait; the hard limit of the test ends this
                pass
            assert heard == [True, True]

    ranks(2).run(body)


def test_a_completion_hook_that_raises_harms_nothing(ranks):
    def body(rank, size):
        def hook(info):
            raise RuntimeError("the user's own mistake")

        with subgroup() as group:
            group._register_on_completion_hook(hook)
            group_works(group)
            values = [torch.ones(count) for count in (1, 3000, 300_000)]
            works = [dist.all_reduce(value, group=group, async_op=True) for value in values]
            futures = [work.get_future() for work in works]
            for work in works:
                work.wait()
            assert all(future.done() for future in futures)
            assert all(bool((value == size).all()) for value in values)
            group_works(group)

    ranks(2).run(body)


def test_the_limit_of_a_wait_is_for_all_operations_of_a_work(ranks):
    """Each of five messages comes within the limit, all of them do not: the wait ends with an error."""
    limit_s, messages = 0.4, 5

    def body(rank, size):
        if rank == 1:
            for _ in range(messages):
                time.sleep(limit_s / 2)
                dist.send(torch.ones(2), 0)
            return
        with dist.distributed_c10d._coalescing_manager(async_ops=True, device=torch.device("cpu")) as manager:
            for _ in range(messages):
                dist.irecv(torch.zeros(2), 1)
        (work,) = manager.works
        assert "reached its timeout of 400 ms" in error_of(work.wait, timedelta(seconds=limit_s)).text
        work.wait()

    ranks(2).run(body)
