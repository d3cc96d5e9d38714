"""ZeroRedundancyOptimizer: states cut over ranks, parameters as with one optimizer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


def fresh_net() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4)).double()


def loss(net: nn.Module, step: int, rank: int) -> Tensor:
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(10 * step + rank), dtype=torch.float64)
    return net(x).square().mean()


def alone(size: int) -> tuple[nn.Module, torch.optim.Adam]:
    net = fresh_net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        torch.stack([loss(net, step, rank) for rank in range(size)]).mean().backward()
        optimizer.step()
    return net, optimizer


@pytest.mark.parametrize("flat", [False, True])
def test_training_equals_training_with_one_optimizer(ranks, flat):
    def body(rank, size):
        net = DistributedDataParallel(fresh_net())
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=flat)
        for step in range(STEPS):
            optimizer.zero_grad()
            loss(net, step, rank).backward()
            optimizer.step()
        reference, reference_optimizer = alone(size)
        for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(mine, wanted)
        optimizer.consolidate_state_dict(to=size - 1)
        if rank == size - 1:
            states = optimizer.state_dict()["state"]
            for index, state in reference_optimizer.state_dict()["state"].items():
                torch.testing.assert_close(states[index]["exp_avg"], state["exp_avg"])

    ranks(3).run(body)
