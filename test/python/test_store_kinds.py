"""Ranks that hand their data over in different ways read each other's all the same."""

import os
import random

import pytest
import torch
import torch.distributed as dist
from harness.rank import init_group
from harness.settings import BACKEND, GROUP_TIMEOUT_S

VALUES = [
    "CUSTOMCCL_STORE_POLICY=plain,streaming",
    "CUSTOMCCL_READ_PEERS=1,20K",
    "CUSTOMCCL_ONE_SHOT_BYTES=1M,1K",
]
COUNTS = [1, 100, 200, 300, 500, 512, 513, 1000, 2000, 20_000, 60_000, 150_000]


def data(of_rank, turn, count):
    return torch.arange(count, dtype=torch.int64) * (of_rank + 1) + turn


def all_reduce(rank, size, turn, count, root):
    mine = data(rank, turn, count)
    dist.all_reduce(mine)
    return mine, torch.stack([data(member, turn, count) for member in range(size)]).sum(0)


def broadcast(rank, size, turn, count, root):
    mine = data(rank, turn, count)
    dist.broadcast(mine, root)
    return mine, data(root, turn, count)


def all_gather(rank, size, turn, count, root):
    mine = torch.empty(size * count, dtype=torch.int64)
    dist.all_gather_into_tensor(mine, data(rank, turn, count))
    return mine, torch.cat([data(member, turn, count) for member in range(size)])


def reduce(rank, size, turn, count, root):
    mine = data(rank, turn, count)
    dist.reduce(mine, root)
    return mine, torch.stack([data(member, turn, count) for member in range(size)]).sum(0) if rank == root else mine


def all_to_all(rank, size, turn, count, root):
    mine = torch.empty(size * count, dtype=torch.int64)
    dist.all_to_all_single(mine, torch.cat([data(rank, turn, count) + 1000 * member for member in range(size)]))
    return mine, torch.cat([data(member, turn, count) + 1000 * rank for member in range(size)])


def all_to_all_skewed(rank, size, turn, count, root):
    counts = [[count * (1 + 2 * a + b) % 3001 for b in range(size)] for a in range(size)]  # from a to b
    sent = torch.cat([data(rank, turn, counts[rank][member]) + 1000 * member for member in range(size)])
    taken = [counts[member][rank] for member in range(size)]
    mine = torch.empty(sum(taken), dtype=torch.int64)
    dist.all_to_all_single(mine, sent, taken, counts[rank])
    return mine, torch.cat([data(member, turn, taken[member]) + 1000 * rank for member in range(size)])


OPERATIONS = [all_reduce, broadcast, all_gather, reduce, all_to_all, all_to_all_skewed]


@pytest.mark.skipif(BACKEND != "customccl", reason="only customccl has such settings")
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("size", [2, 3])
def test_ranks_need_not_agree_on(ranks, tmp_path, values, size):
    def body(rank, size, values, store):
        name, _, choices = values.partition("=")
        os.environ[name] = choices.split(",")[rank % 2]  # read when the first group is made
        init_group(rank, size, dist.FileStore(store, size), GROUP_TIMEOUT_S)
        dice = random.Random(7)  # the same on all ranks
        for turn in range(1500):
            count, root = dice.choice(COUNTS) + dice.randrange(3), dice.randrange(size)
            operation = dice.choice(OPERATIONS)
            got, right = operation(rank, size, turn, count, root)
            assert torch.equal(got, right), f"turn {turn}: {operation.__name__} of {count} elements is wrong"
        dist.destroy_process_group()

    ranks(size, fresh=True, init=False).run(body, values, str(tmp_path / "store"))
