"""A rank is killed: every survivor raises and names it, later ops raise at once, whatever the rank was doing."""

from __future__ import annotations

import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from expectations import check_names, check_refused, reports_of, survive
from harness.rank import error_of, hear_parent, init_group, subgroup, tell_parent

import torch_customccl
from torch_customccl._loader import torch_minor

pytestmark = pytest.mark.usefixtures("nothing_left")

VICTIM = 1
SURVIVORS = [0, 2]
LONG_S = 120.0
LARGE = 4 * 1024 * 1024  # elements: 16 MiB of float32


def forever(call):
    """Repeat the call until it raises; report once it has worked a few times."""
    for turn in range(1_000_000):
        call()
        if turn == 2:
            tell_parent("looping")


def record(figure, killed_at, reports):
    for report in reports.values():
        figure("ms from SIGKILL of a rank to the error of a survivor", 1e3 * (report.raised_at - killed_at))


def test_a_rank_that_was_killed_while_the_group_was_made_is_named_and_nobody_falls_back_to_gloo(ranks, tmp_path):
    def body(rank, size, path):
        if rank == SURVIVORS[0]:
            while f"/rank/{VICTIM}".encode() not in path.read_bytes():  # the hard limit of the test ends this
                pass
            tell_parent("the victim has shown its record")
        if rank != VICTIM:
            hear_parent()
        failure = error_of(init_group, rank, size, dist.FileStore(str(path), size), LONG_S)
        return failure, torch_customccl.info()["groups_over_gloo"]

    path = tmp_path / "store"
    path.touch()
    workers = ranks(3, fresh=True, init=False)
    workers.start(body, path)
    workers.wait_for(SURVIVORS[0], "the victim has shown its record")
    workers.kill(VICTIM)
    workers.wait_for_death(VICTIM)
    for rank in SURVIVORS:
        workers.tell(rank, "go")
    outcomes = workers.finish(limit=LONG_S / 2)
    for rank in SURVIVORS:
        failure, over_gloo = outcomes[rank].value
        assert failure.is_a("DistBackendError") and f"global rank {VICTIM}" in failure.text, failure
        assert "has ended" in failure.text and not over_gloo, failure


def test_a_rank_that_was_killed_before_the_first_op_is_named_by_every_survivor(ranks, figure):
    def body(rank, size):
        tell_parent("ready")
        hear_parent()
        return survive(lambda: dist.all_reduce(torch.ones(10)))

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "ready")
    workers.kill(VICTIM)
    workers.wait_for_death(VICTIM)
    told_at = time.monotonic()
    for rank in SURVIVORS:
        workers.tell(rank, "go")
    reports = reports_of(workers.finish(), SURVIVORS)
    record(figure, told_at, reports)
    for report in reports.values():
        check_names(report.first, "all_reduce", VICTIM)
        check_refused(report.later, "all_reduce", rf"rank {VICTIM}\b")


CALLS = {
    "all_reduce": lambda n, size: dist.all_reduce(torch.ones(n)),
    "broadcast": lambda n, size: dist.broadcast(torch.ones(n), src=VICTIM),
    "all_gather": lambda n, size: dist.all_gather_into_tensor(torch.zeros(n * size), torch.ones(n)),
    "reduce_scatter": lambda n, size: dist.reduce_scatter_tensor(torch.zeros(n), torch.ones(n * size)),
    "all_to_all": lambda n, size: dist.all_to_all_single(torch.zeros(n * size), torch.ones(n * size)),
    "barrier": lambda n, size: dist.barrier(),
}


@pytest.mark.parametrize(
    ("op", "count"), [(op, count) for op in CALLS for count in (1, 16_384, LARGE) if op != "barrier" or count == 1]
)
def test_a_rank_killed_somewhere_inside_a_loop_of_ops_is_named_by_every_survivor(ranks, figure, op, count):
    def body(rank, size):
        return survive(lambda: forever(lambda: CALLS[op](count, size)))

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "looping")
    killed_at = workers.kill(VICTIM)
    reports = reports_of(workers.finish(), SURVIVORS)
    record(figure, killed_at, reports)
    for report in reports.values():
        check_names(report.first, op, VICTIM)
        check_refused(report.later, "all_reduce", rf"rank {VICTIM}\b")


ENDS = {
    "SIGSEGV": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "SIGABRT": lambda: os.kill(os.getpid(), signal.SIGABRT),
    "_exit": lambda: os._exit(0),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_rank_that_ends_in_another_way_is_named_as_well(ranks, how):
    def body(rank, size):
        dist.all_reduce(torch.ones(100))
        if rank == VICTIM:
            ENDS[how]()
        return survive(lambda: dist.all_reduce(torch.ones(100)))

    workers = ranks(3, fresh=True)
    workers.start(body)
    for report in reports_of(workers.finish(), SURVIVORS).values():
        check_names(report.first, "all_reduce", VICTIM)


def test_ranks_that_wait_in_recv_learn_of_the_death_of_the_sender(ranks, figure):
    """Rank 0 waits for the victim, rank 2 for whoever comes."""

    def body(rank, size):
        tell_parent("about to wait")
        if rank == VICTIM:
            hear_parent()
        return survive(lambda: dist.recv(torch.zeros(4), src=VICTIM if rank == 0 else None))

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "about to wait")
    killed_at = workers.kill(VICTIM)
    reports = reports_of(workers.finish(), SURVIVORS)
    record(figure, killed_at, reports)
    for report in reports.values():
        check_names(report.first, "recv", VICTIM)


@pytest.mark.parametrize("count", [8, LARGE])
def test_a_large_message_that_is_never_taken_ends_with_the_death_of_its_receiver(ranks, figure, count):
    """A small message may have been handed over before; then the next ones find no taker."""

    def body(rank, size):
        if rank == VICTIM:
            tell_parent("looping")
            hear_parent()
        return survive(lambda: forever(lambda: dist.send(torch.ones(count), dst=VICTIM)))

    workers = ranks(2, fresh=True)
    workers.start(body)
    workers.wait_for(VICTIM, "looping")
    killed_at = workers.kill(VICTIM)
    reports = reports_of(workers.finish(), [0])
    record(figure, killed_at, reports)
    check_names(reports[0].first, "send", VICTIM)


@pytest.mark.parametrize("how", ["wait", "poll", "future", "wait in the opposite order"])
def test_works_in_flight_fail_when_a_rank_dies(ranks, how):
    def body(rank, size):
        if rank == VICTIM:
            tell_parent("posted")
            hear_parent()
        works = [dist.all_reduce(torch.ones(n), async_op=True) for n in (4, 20_000, LARGE)]
        tell_parent("posted")

        def finish():
            for work in reversed(works) if how.endswith("opposite order") else works:
                if how == "poll":
                    while not work.is_completed():  # the hard limit of the test ends this if it never happens
                        pass
                    assert not work.is_success()
                    if torch_minor() != "2.11":  # which cannot convert it to Python
                        assert isinstance(work.exception(), BaseException) or work.exception() is not None
                if how == "future":
                    work.get_future().wait()
                work.wait()

        return survive(finish)

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "posted")
    workers.kill(VICTIM)
    for report in reports_of(workers.finish(), SURVIVORS).values():
        if how == "future":
            assert f"rank {VICTIM}" in report.first.text and "all_reduce" in report.first.text, report.first
        else:
            check_names(report.first, "all_reduce", VICTIM)


def test_a_group_without_the_dead_rank_goes_on(ranks):
    def body(rank, size):
        with subgroup([0, 2]) as pair:
            tell_parent("ready")
            if rank == VICTIM:
                hear_parent()
            report = survive(lambda: forever(lambda: dist.all_reduce(torch.ones(100))))
            for turn in range(100):
                value = torch.full((turn * 10,), 1.0)
                dist.all_reduce(value, group=pair)
                assert bool((value == 2).all())
            dist.barrier(group=pair)
        return report

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "ready")
    workers.kill(VICTIM)
    for report in reports_of(workers.finish(), SURVIVORS).values():
        check_names(report.first, "all_reduce", VICTIM)


def test_all_ranks_but_one_may_die_at_once(ranks):
    def body(rank, size):
        return survive(lambda: forever(lambda: dist.all_reduce(torch.ones(100_000))))

    workers = ranks(4, fresh=True)
    workers.start(body)
    for rank in range(4):
        workers.wait_for(rank, "looping")
    for rank in (1, 2, 3):
        workers.kill(rank)
    report = reports_of(workers.finish(), [0])[0]
    assert any(f"rank {rank}" in report.first.text for rank in (1, 2, 3)), report.first


def test_nothing_is_left_when_all_ranks_are_killed(ranks):
    """The fixture around this test compares processes, sockets, descriptors and /dev/shm."""

    def body(rank, size):
        forever(lambda: dist.all_reduce(torch.ones(LARGE)))

    workers = ranks(3, fresh=True)
    workers.start(body)
    for rank in range(3):
        workers.wait_for(rank, "looping")
    for rank in range(3):
        workers.kill(rank)
    workers.finish()
