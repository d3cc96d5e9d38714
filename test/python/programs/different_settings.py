"""A rank with another setting than its neighbours: what ranks choose by themselves need not agree.

different_settings.py NAME=VALUE,VALUE   the value of even ranks, then that of odd ones
"""

import os
import random
import sys

import torch
import torch.distributed as dist

name, values = sys.argv[1].split("=")
os.environ[name] = values.split(",")[int(os.environ["RANK"]) % 2]
dist.init_process_group(os.environ["TEST_BACKEND"])
rank, size = dist.get_rank(), dist.get_world_size()
dice = random.Random(7)  # the same on all ranks


def data(of_rank: int, turn: int, count: int) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int64) * (of_rank + 1) + turn


for turn in range(1500):
    count = dice.choice([1, 100, 200, 300, 500, 512, 513, 1000, 2000, 20_000, 60_000, 150_000]) + dice.randrange(3)
    operation, root = dice.randrange(6), dice.randrange(size)
    mine = data(rank, turn, count)
    everybody = [data(member, turn, count) for member in range(size)]
    if operation == 0:
        dist.all_reduce(mine)
        right = torch.stack(everybody).sum(0)
    elif operation == 1:
        dist.broadcast(mine, root)
        right = everybody[root]
    elif operation == 2:
        mine, sent = torch.empty(size * count, dtype=torch.int64), mine
        dist.all_gather_into_tensor(mine, sent)
        right = torch.cat(everybody)
    elif operation == 3:
        dist.reduce(mine, root)
        right = torch.stack(everybody).sum(0) if rank == root else mine
    elif operation == 4:
        counts = [[count * (1 + 2 * a + b) % 3001 for b in range(size)] for a in range(size)]  # from a to b
        sent = torch.cat([data(rank, turn, counts[rank][member]) + 1000 * member for member in range(size)])
        taken = [counts[member][rank] for member in range(size)]
        mine = torch.empty(sum(taken), dtype=torch.int64)
        dist.all_to_all_single(mine, sent, taken, counts[rank])
        right = torch.cat([data(member, turn, taken[member]) + 1000 * rank for member in range(size)])
    else:
        sent = torch.cat([mine + 1000 * member for member in range(size)])
        mine = torch.empty(size * count, dtype=torch.int64)
        dist.all_to_all_single(mine, sent)
        right = torch.cat([each + 1000 * rank for each in everybody])
    assert torch.equal(mine, right), f"turn {turn}: operation {operation} of {count} elements is wrong"

dist.destroy_process_group()
