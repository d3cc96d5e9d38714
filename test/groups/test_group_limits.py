"""Limits of a Group's operations that are short, or have passed already."""

from __future__ import annotations

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of
from shared import LIMIT, group

from torch_customccl import create_group


@pytest.mark.parametrize("limit", [timedelta(0), timedelta(milliseconds=-1), timedelta(days=-1)])
def test_a_limit_of_an_operation_that_has_passed_is_not_the_groups(limit):
    with create_group(dist.HashStore(), 0, 1, "passed", timeout=LIMIT) as made:
        for call in (made.barrier, lambda timeout: made.all_reduce(torch.ones(1), timeout=timeout)):
            with pytest.raises(ValueError, match="the timeout of an operation must be positive"):
                call(timeout=limit)


def test_a_limit_of_less_than_a_millisecond_is_one(ranks):
    def body(rank, size):
        with group(rank, size, "short") as made, group(rank, size, "after") as after:
            raised = error_of(made.barrier, timeout=timedelta(microseconds=1)) if rank == 0 else None
            after.barrier()  # rank 1 calls no barrier of the first
            return raised

    raised, _ = ranks(2).run(body)
    assert raised.is_a("DistBackendError") and "of 1 ms" in raised.text
