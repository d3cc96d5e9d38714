"""get_future_result(): how a work ended, as a number. It never raises."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist
from harness.rank import tell_parent
from torch._C._distributed_c10d import AllreduceOptions, AllToAllOptions, WorkResult


def test_every_work_that_succeeds_says_so(ranks):
    def body(rank, size):
        value, other = torch.ones(5), 1 - rank
        asynchronous = [
            dist.all_reduce(value, async_op=True),
            dist.barrier(async_op=True),
            dist.isend(torch.ones(3), other),
            dist.irecv(torch.ones(3), other),
        ]
        options = AllToAllOptions()
        options.asyncOp = False
        synchronous = dist.group.WORLD.alltoall_base(torch.empty(4), torch.ones(4), [], [], options)
        results = [work.get_future_result() for work in (*asynchronous, synchronous)]
        assert [result.wait() for result in results] == [int(WorkResult.SUCCESS)] * 5
        late = asynchronous[0].get_future_result()
        assert late.done() and late.value() == 0
        doubled = asynchronous[0].get_future_result().then(lambda result: result.value() + 7)
        assert doubled.wait() == 7

    ranks(2).run(body)


def test_a_work_that_fails_says_how(ranks):
    """Rank 1 does not come; rank 0's first operation passes its limit, and the group ends with it."""

    def body(rank, size):
        if rank == 1:
            return None
        hasty = AllreduceOptions()
        hasty.timeout = timedelta(milliseconds=50)
        works = [dist.group.WORLD.allreduce([torch.ones(3)], hasty), dist.irecv(torch.ones(3), 1)]
        results = [work.get_future_result() for work in works]
        values = [result.wait() for result in results]
        assert all(work.is_completed() and not work.is_success() for work in works)
        refused = dist.barrier(async_op=True).get_future_result().wait()
        return [*values, refused]

    timeout = int(WorkResult.TIMEOUT)
    assert ranks(2, fresh=True).run(body)[0] == [timeout] * 3


def test_the_works_of_an_aborted_group_report_an_error(ranks):
    def body(rank, size):
        if rank == 1:
            return None
        work = dist.all_reduce(torch.ones(3), async_op=True)
        result = work.get_future_result()
        dist.group.WORLD.abort()
        tell_parent("aborted")
        return result.wait()

    assert ranks(2, fresh=True).run(body)[0] == int(WorkResult.COMM_ERROR)
