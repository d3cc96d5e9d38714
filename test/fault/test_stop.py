"""A rank is slow or stopped: others wait until the timeout that was set, then say for whom and how long they waited."""

from __future__ import annotations

import re
import signal
import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from expectations import check_names, check_refused, reports_of, survive
from harness.messages import Returned
from harness.programs import run_ranks
from harness.rank import error_of, group_works, hear_parent, tell_parent

pytestmark = pytest.mark.usefixtures("nothing_left")

VICTIM = 1
LIMIT_S = 1.5

CALLS = {
    "all_reduce": lambda size: dist.all_reduce(torch.ones(10)),
    "broadcast": lambda size: dist.broadcast(torch.ones(10), src=VICTIM),
    "all_gather": lambda size: dist.all_gather_into_tensor(torch.zeros(10 * size), torch.ones(10)),
    "reduce_scatter": lambda size: dist.reduce_scatter_tensor(torch.zeros(10), torch.ones(10 * size)),
    "all_to_all": lambda size: dist.all_to_all_single(torch.zeros(10 * size), torch.ones(10 * size)),
    "barrier": lambda size: dist.barrier(),
    "recv": lambda size: dist.recv(torch.zeros(10), src=VICTIM),
    "send": lambda size: dist.send(torch.zeros(4_000_000), dst=VICTIM),
}


@pytest.mark.parametrize("op", CALLS)
def test_a_rank_that_does_not_come_is_named_when_the_timeout_of_the_group_has_passed(ranks, figure, op):
    """The timeout was given to init_process_group. The victim lives but does not call."""

    def body(rank, size):
        if rank == VICTIM:
            hear_parent()
            return None
        return survive(lambda: CALLS[op](size))

    workers = ranks(2, fresh=True, timeout=LIMIT_S)
    workers.start(body)
    report = reports_of(workers.finish(without=frozenset({VICTIM})), [0])[0]
    figure("s from the passing of a timeout to the error", report.first.seconds - LIMIT_S)
    check_names(report.first, op, VICTIM, "(?i)time", rf"of {LIMIT_S:g} s")
    assert report.first.seconds >= LIMIT_S - 0.01, report.first
    check_refused(report.later, "all_reduce", rf"rank {VICTIM}\b")


@pytest.mark.parametrize("count", [1, 16_384, 4_000_000])
def test_a_rank_stopped_inside_a_loop_of_ops_is_named_by_every_other_one(ranks, count):
    def body(rank, size):
        def loop():
            for turn in range(1_000_000):
                dist.all_reduce(torch.ones(count))
                if turn == 2:
                    tell_parent("looping")

        return survive(loop)

    workers = ranks(3, fresh=True, timeout=LIMIT_S)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "looping")
    workers.send_signal(VICTIM, signal.SIGSTOP)
    reports = reports_of(workers.finish(without=frozenset({VICTIM})), [0, 2])
    for report in reports.values():
        check_names(report.first, "all_reduce", VICTIM, "(?i)time")


def test_a_stopped_rank_that_goes_on_in_time_is_waited_for(ranks):
    def body(rank, size):
        for turn in range(3):
            group_works(case=f"turn {turn}")
        tell_parent("before")
        if rank == VICTIM:
            hear_parent()
        dist.all_reduce(torch.ones(4_000_000))
        group_works(case="after")

    workers = ranks(2, fresh=True)
    workers.start(body)
    for rank in range(2):
        workers.wait_for(rank, "before")
    workers.send_signal(VICTIM, signal.SIGSTOP)
    workers.tell(VICTIM, "go on")
    threading.Event().wait(0.5)  # being late is what is tested; the length does not decide the result
    workers.send_signal(VICTIM, signal.SIGCONT)
    assert all(isinstance(outcome, Returned) for outcome in workers.finish())


def test_a_rank_that_comes_late_is_waited_for_by_sync_and_async_ops(ranks):
    def body(rank, size):
        for mode in ("sync", "async"):
            tell_parent("about to call")
            if rank == VICTIM:
                hear_parent()
            value = torch.full((50_000,), float(rank))
            if mode == "async":
                dist.all_reduce(value, async_op=True).wait()
            else:
                dist.all_reduce(value)
            assert bool((value == 3).all()), mode

    workers = ranks(3, fresh=True)
    workers.start(body)
    for _ in range(2):
        for rank in range(3):
            workers.wait_for(rank, "about to call")
        threading.Event().wait(0.5)  # long enough for every waiter to have gone to sleep in the kernel
        workers.tell(VICTIM, "come")
    assert all(isinstance(outcome, Returned) for outcome in workers.finish())


def test_the_timeout_of_wait_beats_that_of_the_group(ranks, figure):
    def body(rank, size):
        if rank == VICTIM:
            hear_parent()
            return None
        work = dist.all_reduce(torch.ones(10), async_op=True)
        error = error_of(work.wait, timedelta(seconds=0.3))
        assert not work.is_completed() or not work.is_success()
        return error

    workers = ranks(2, fresh=True)
    workers.start(body)
    outcome = workers.finish(without=frozenset({VICTIM}))[0]
    assert isinstance(outcome, Returned), outcome
    error = outcome.value
    figure("s from the passing of a timeout to the error", error.seconds - 0.3)
    check_names(error, "all_reduce", VICTIM, r"(0\.3 s|300 ms)")
    assert error.seconds >= 0.29, error


def test_the_timeout_of_one_op_beats_that_of_the_group(ranks, figure):
    """The options of the methods of ProcessGroup carry a timeout for this op alone."""

    def body(rank, size):
        if rank == VICTIM:
            hear_parent()
            return None
        options = dist.AllreduceOptions()
        options.timeout = timedelta(seconds=0.4)
        group = dist.distributed_c10d._get_default_group()
        return error_of(lambda: group.allreduce([torch.ones(10)], options).wait())

    workers = ranks(2, fresh=True)
    workers.start(body)
    outcome = workers.finish(without=frozenset({VICTIM}))[0]
    assert isinstance(outcome, Returned), outcome
    figure("s from the passing of a timeout to the error", outcome.value.seconds - 0.4)
    check_names(outcome.value, "all_reduce", VICTIM, "(?i)time", r"of (0\.4 s|400 ms)")
    assert outcome.value.seconds >= 0.39, outcome.value


def test_a_group_may_have_a_shorter_timeout_than_the_default_group(ranks):
    def body(rank, size):
        group = dist.new_group(timeout=timedelta(seconds=0.5))
        if rank == VICTIM:
            hear_parent()
            return None
        return survive(lambda: dist.barrier(group=group), group)

    workers = ranks(2, fresh=True)
    workers.start(body)
    report = reports_of(workers.finish(without=frozenset({VICTIM})), [0])[0]
    check_names(report.first, "barrier", VICTIM, "(?i)time", r"of (0\.5 s|500 ms)")


def test_signals_that_a_program_handles_do_not_disturb_an_op(ranks):
    """A storm of SIGUSR2 while all ranks wait and work: interrupted system calls are simply made again."""

    def body(rank, size):
        seen = []
        signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
        tell_parent("handling")
        for turn in range(150):
            value = torch.full((30_000 * (turn % 3) + 1,), 1.0)
            dist.all_reduce(value)
            assert bool((value == size).all()), turn
        hear_parent()
        return len(seen)

    workers = ranks(2, fresh=True)
    workers.start(body)
    for rank in range(2):
        workers.wait_for(rank, "handling")
    for _ in range(500):
        for rank in range(2):
            workers.send_signal(rank, signal.SIGUSR2)
    for rank in range(2):
        workers.tell(rank, "enough")
    outcomes = workers.finish()
    assert all(isinstance(outcome, Returned) and outcome.value > 0 for outcome in outcomes), outcomes


def test_the_log_tells_once_a_second_what_a_rank_waits_for():
    ended = run_ranks("late_rank.py", 2, "2.5", CUSTOMCCL_LOG="debug")
    lines = re.findall(r"rank 0 waits in all_reduce #\d+ of group .* since [\d.]+ s for rank 1\b", ended[0].output)
    assert 1 <= len(lines) <= 2, ended[0]
    assert "waits" not in ended[1].output
