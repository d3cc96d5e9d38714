"""Timeouts changed while a group works, and _add_ephemeral_timeout(): more time until the next operation is over."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from harness import worker
from harness.rank import error_of, group_works, subgroup
from harness.settings import BACKEND
from torch._C._distributed_c10d import AllreduceOptions


def start(rank, size, seconds):
    store = worker.seat.store()
    dist.init_process_group(BACKEND, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=20))
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    backend.set_timeout(timedelta(seconds=seconds))
    return backend


def error_of_rank_0_alone(rank):
    return error_of(dist.all_reduce, torch.ones(3)).text if rank == 0 else ""


def test_extensions_add_up_for_the_next_operation(ranks):
    def body(rank, size):
        backend = start(rank, size, 0.25)
        backend._add_ephemeral_timeout(timedelta(milliseconds=100))
        backend._add_ephemeral_timeout(timedelta(milliseconds=25))
        return error_of_rank_0_alone(rank)

    assert "of 375 ms" in ranks(2, fresh=True, init=False).run(body)[0]


def test_an_extension_ends_with_the_first_operation_that_began_after_it(ranks):
    def body(rank, size, asynchronous):
        backend = start(rank, size, 20)
        backend._add_ephemeral_timeout(timedelta(seconds=1000))
        work = dist.all_reduce(torch.ones(3), async_op=asynchronous)
        if asynchronous:
            work.wait()
        backend.set_timeout(timedelta(milliseconds=250))
        return error_of_rank_0_alone(rank)

    for asynchronous in (False, True):
        assert "of 250 ms" in ranks(2, fresh=True, init=False).run(body, asynchronous)[0]


def test_the_timeout_of_a_group_may_be_changed_by_torchs_function(ranks):
    def body(rank, size):
        start(rank, size, 20)
        dist.distributed_c10d._set_pg_timeout(timedelta(milliseconds=275))
        return error_of_rank_0_alone(rank)

    assert "of 275 ms" in ranks(2, fresh=True, init=False).run(body)[0]


def test_a_time_of_thousands_of_years_is_as_good_as_for_ever(ranks):
    def body(rank, size):
        ages = timedelta(days=10**6)
        for case in ("a group", "an operation", "a wait"):
            with subgroup(timeout=ages) if case == "a group" else subgroup() as group:
                options = AllreduceOptions()
                options.timeout = ages if case == "an operation" else timedelta(seconds=60)
                work = group.allreduce([torch.ones(3)], options)
                assert work.wait(ages) if case == "a wait" else work.wait()
                group_works(group, case)

    ranks(2).run(body)


def test_an_extension_must_be_positive(ranks):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        error = error_of(backend._add_ephemeral_timeout, timedelta(seconds=-1))
        assert error.is_a("ValueError")
        assert "positive" in error.text

    ranks(2).run(body)
