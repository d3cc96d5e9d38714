"""dist.split_group, which asks the backend's object for more than the other ways to a group do.

torch 2.13 allows it only where there is an accelerator; here the CPU is passed off as one.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from harness import worker
from harness.rank import group_works
from harness.settings import BACKEND


def test_the_options_of_a_group_are_readable_and_copyable(ranks):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        copied = copy.deepcopy(backend.options)
        assert type(copied) is type(backend.options)
        assert copied._timeout == backend.options._timeout
        assert copied.backend == BACKEND
        return list(backend.options.global_ranks_in_group)

    assert ranks(3).run(body) == [[0, 1, 2]] * 3


def test_split_group(ranks):
    def body(rank, size):
        dist.init_process_group(
            BACKEND, store=worker.seat.store(), rank=rank, world_size=size, timeout=timedelta(seconds=20)
        )
        dist.group.WORLD.bound_device_id = torch.device("cpu", 0)
        with (
            mock.patch("torch.accelerator.is_available", return_value=True),
            mock.patch("torch.accelerator.current_accelerator", return_value=torch.device("cpu")),
        ):
            group = dist.split_group(split_ranks=[[0, 2], [1]])
        assert dist.get_process_group_ranks(group) == ([0, 2] if rank != 1 else [1])
        group_works(group)
        group_works()
        dist.destroy_process_group()

    pytest.importorskip("torch.accelerator")
    ranks(3, fresh=True, init=False).run(body)


def test_splitting_a_group_for_two_kinds_of_devices_makes_groups_that_work(ranks):
    """One object serves both kinds, and torch splits it once for each, with the same part of the store."""

    def body(rank, size):
        dist.init_process_group(
            f"cpu:{BACKEND},cuda:{BACKEND}",
            store=worker.seat.store(),
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=20),
        )
        for members in ([0, 1, 2], [2, 0], [2, 0]):
            child = dist.group.WORLD.split_group(members)
            assert (child is None) == (rank not in members)
            if child is None:
                continue
            value = torch.full((1000,), float(rank + 1))
            child.allreduce([value]).wait()
            assert value.tolist() == [float(sum(members) + len(members))] * 1000
        group_works()

    ranks(3, fresh=True, init=False).run(body)
