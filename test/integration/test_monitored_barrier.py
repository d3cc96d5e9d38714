"""torch.distributed.monitored_barrier: rank 0 judges, and says in gloo's words who did not come."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, group_works, hear_parent, subgroup, tell_parent

SHORT = timedelta(milliseconds=300)
LONG = timedelta(seconds=20)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_it_is_a_barrier_among_other_operations(ranks, size):
    def body(rank, size):
        for wait_all_ranks in (False, True):
            work = dist.all_reduce(torch.ones(5), async_op=True)
            dist.monitored_barrier(timeout=LONG, wait_all_ranks=wait_all_ranks)
            dist.monitored_barrier(timeout=5.0)
            work.wait()
        dist.monitored_barrier()
        group_works()

    ranks(size).run(body)


@pytest.mark.parametrize("backend", ["cpu:customccl", "cpu:customccl,cuda:gloo"])
def test_it_serves_groups_asked_for_by_device(ranks, backend):
    def body(rank, size, backend):
        group = dist.new_group(list(range(size)), backend=backend, timeout=LONG)
        dist.monitored_barrier(group, timeout=LONG)
        raised = None
        if rank == 0:
            raised = error_of(dist.monitored_barrier, group, timeout=SHORT)
        dist.barrier()
        dist.destroy_process_group(group)
        return raised

    raised = ranks(2).run(body, backend)[0]
    assert "Rank 1 failed to pass monitoredBarrier in 300 ms" in raised.text


def test_nobody_passes_before_the_last_one_has_come(ranks):
    """CLOCK_MONOTONIC is one clock for all processes of a machine."""

    def body(rank, size):
        if rank == 0:
            tell_parent("about to wait")
        else:
            hear_parent()
        came = time.monotonic_ns()
        dist.monitored_barrier(timeout=LONG)
        return came, time.monotonic_ns()

    workers = ranks(2)
    workers.start(body)
    workers.wait_for(0, "about to wait")
    workers.tell(1, "come")
    (_, left), (came, _) = (outcome.value for outcome in workers.finish())
    assert left >= came


@pytest.mark.parametrize(
    ("wait_all_ranks", "wanted"),
    [
        (False, "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 300 ms. Not there either: 3"),
        (True, "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 300 ms"),
    ],
)
def test_rank_0_names_who_did_not_come_and_the_others_raise_too(ranks, wait_all_ranks, wanted):
    def body(rank, size, wait_all_ranks):
        with subgroup(timeout=LONG) as group:
            error = error_of(dist.monitored_barrier, group, SHORT, wait_all_ranks) if rank < 2 else None
            dist.barrier()  # the absent stay in the group so long
            return error

    judge, present, _, _ = ranks(4).run(body, wait_all_ranks)
    assert judge.is_a("DistBackendError")
    assert judge.text.splitlines()[0] == wanted
    assert present.is_a("DistBackendError")
    assert present.text.startswith(
        "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
        "Please check rank 0 logs for faulty rank."
    )
    assert wanted in present.text


def test_ranks_in_the_texts_are_global(ranks):
    def body(rank, size):
        with subgroup([1, 2], timeout=LONG) as group:
            error = error_of(dist.monitored_barrier, group, SHORT) if rank == 1 else None
            dist.barrier()
            return error

    error = ranks(3).run(body)[1]
    assert error.text.startswith("[Rank 1]: Rank 2 failed to pass monitoredBarrier in 300 ms")


@pytest.mark.parametrize("milliseconds", [0, -7])
def test_no_time_at_all_fails_at_once(ranks, milliseconds):
    def body(rank, size, milliseconds):
        with subgroup() as group:
            limit = timedelta(milliseconds=milliseconds)
            error = error_of(dist.monitored_barrier, group, limit) if rank == 0 else None
            dist.barrier()
            return error

    error = ranks(2).run(body, milliseconds)[0]
    assert error.text == (
        f"Rank 0 timed out in monitoredBarrier after {milliseconds} ms.\n"
        "No ranks successfully processed in monitoredBarrier."
    )


def test_no_time_means_the_groups_timeout_when_all_are_waited_for(ranks):
    """As with gloo."""

    def body(rank, size):
        with subgroup(timeout=SHORT) as group:
            error = error_of(dist.monitored_barrier, group, timedelta(0), True) if rank == 0 else None
            dist.barrier()
            return error

    error = ranks(2).run(body)[0]
    assert error.text.startswith("[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 0 ms")
    assert error.seconds >= SHORT.total_seconds()


def test_a_rank_that_waits_for_rank_0_in_vain_raises_after_the_groups_timeout(ranks):
    def body(rank, size):
        with subgroup(timeout=SHORT) as group:
            error = error_of(dist.monitored_barrier, group, SHORT) if rank == 1 else None
            dist.barrier()
            return error

    error = ranks(2).run(body)[1]
    assert error.text.startswith("Rank 1 successfully reached monitoredBarrier, but received errors")
    assert "timeout" in error.text


def test_a_dead_rank_is_named_at_once(ranks):
    def body(rank, size):
        if rank == 0:
            tell_parent("waits")
            return error_of(dist.monitored_barrier, timeout=LONG, wait_all_ranks=True)
        hear_parent()
        return None

    workers = ranks(2, fresh=True)
    workers.start(body)
    workers.wait_for(0, "waits")
    workers.kill(1)
    error = workers.finish()[0].value
    assert error.text.startswith("[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 20000 ms\n Original exception")
    assert error.seconds < LONG.total_seconds()


def test_groups_of_other_backends_keep_torchs_function(ranks):
    def body(rank, size):
        group = dist.new_group(backend="gloo", timeout=LONG)
        dist.monitored_barrier(group, LONG)
        error = error_of(dist.monitored_barrier, group, "soon")
        dist.destroy_process_group(group)
        return error

    assert ranks(2).run(body)[0].is_a("TypeError")


def test_a_forked_child_is_refused_and_blames_no_rank(ranks):
    def body(rank, size):
        if rank == 1:
            child = os.fork()
            if child == 0:
                text = error_of(dist.monitored_barrier, timeout=SHORT).text
                os._exit(0 if "refused: this process was forked" in text.partition("\n")[0] else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        dist.monitored_barrier(timeout=LONG)

    ranks(3, fresh=True).run(body)
