"""The hook that hears of every successful operation of a group."""

from __future__ import annotations

import torch
import torch.distributed as dist
from harness.rank import subgroup


def test_every_operation_is_reported_and_the_end_of_the_group_waits_for_that(ranks):
    def body(rank, size):
        heard = []
        with subgroup() as group:
            assert not group._has_hooks()
            group._register_on_completion_hook(lambda info: heard.append((info.op_type, info.seq)))
            assert group._has_hooks()
            dist.all_reduce(torch.ones(3), group=group)
            works = [dist.all_reduce(torch.ones(3), group=group, async_op=True) for _ in range(2)]
            dist.barrier(group=group)
            del works
        return [(str(kind).rpartition(".")[2], sequence) for kind, sequence in heard]

    for heard in ranks(2).run(body):
        assert sorted(heard, key=lambda row: row[1]) == [
            ("ALLREDUCE", 1),
            ("ALLREDUCE", 2),
            ("ALLREDUCE", 3),
            ("BARRIER", 4),
        ]
