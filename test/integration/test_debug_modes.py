"""Modes of torch.distributed that wrap or delay a group."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness import worker
from harness.settings import BACKEND
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TIMEOUT = timedelta(seconds=20)


def init(rank: int, size: int) -> None:
    dist.init_process_group(BACKEND, store=worker.seat.store(), rank=rank, world_size=size, timeout=TIMEOUT)


def use_everything(rank: int, size: int) -> None:
    """Each collective once, and messages, with values by formula."""
    ones = torch.ones(4)
    value = ones * (rank + 1)
    dist.all_reduce(value)
    assert torch.equal(value, ones * size * (size + 1) / 2)
    dist.reduce(value, 0)
    dist.broadcast(value, 1)
    pieces = [torch.empty(4) for _ in range(size)]
    dist.all_gather(pieces, ones * rank)
    assert torch.equal(torch.stack(pieces)[:, 0], torch.arange(float(size)))
    whole = torch.empty(4 * size)
    dist.all_gather_into_tensor(whole, ones * rank)
    assert torch.equal(whole, torch.arange(float(size)).repeat_interleave(4))
    own = torch.empty(4)
    dist.reduce_scatter_tensor(own, torch.arange(4.0 * size))
    assert torch.equal(own, torch.arange(4.0 * size).chunk(size)[rank] * size)
    dist.scatter(own, [ones * other for other in range(size)] if rank == 0 else None)
    assert torch.equal(own, ones * rank)
    dist.gather(own, pieces if rank == 0 else None)
    dist.all_to_all_single(whole, torch.arange(4.0 * size) + 100 * rank)
    assert torch.equal(whole.view(size, 4)[:, 0], torch.arange(size) * 100.0 + 4 * rank)
    dist.all_to_all(pieces, [ones * other for other in range(size)])
    assert torch.equal(torch.stack(pieces), torch.full((size, 4), float(rank)))
    works = [dist.isend(ones * rank, (rank + 1) % size), dist.irecv(own, (rank - 1) % size)]
    for work in works:
        work.wait()
    assert torch.equal(own, ones * ((rank - 1) % size))
    work = dist.all_reduce(own, async_op=True)
    work.wait()
    assert work.is_completed()
    dist.barrier()


def test_debug_level_detail(ranks):
    """torch wraps the group: a barrier with a deadline and a comparison of what ranks call precede every collective."""

    def body(rank, size):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        init(rank, size)
        use_everything(rank, size)
        use_everything(dist.get_rank(group := dist.new_group()), dist.get_world_size(group))
        net = DistributedDataParallel(nn.Linear(3, 2))
        net(torch.ones(1, 3)).sum().backward()
        dist.destroy_process_group()

    ranks(3, fresh=True, init=False).run(body)


def test_debug_level_detail_finds_what_ranks_call_differently(ranks):
    def body(rank, size):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        init(rank, size)
        with pytest.raises(RuntimeError, match="mismatch"):
            if rank == 0:
                dist.all_reduce(torch.ones(3))
            else:
                dist.broadcast(torch.ones(3), 0)

    ranks(2, fresh=True, init=False).run(body)


def test_a_barrier_after_making_each_group(ranks):
    def body(rank, size):
        os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
        init(rank, size)
        group = dist.new_group([0, 1])
        use_everything(rank, size)
        assert (group == dist.GroupMember.NON_GROUP_MEMBER) == (rank == 2)
        dist.destroy_process_group()

    ranks(3, fresh=True, init=False).run(body)
