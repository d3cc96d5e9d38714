"""DistributedDataParallel learns what one process learns from the same global batches."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from harness.guarded import assert_same_bits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS, SHARE = 8, 6  # steps of training, and samples per rank and step


class Net(nn.Module):
    """Three layers, a buffer, and a branch that some steps do not use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(10, 300), nn.Linear(300, 200), nn.Linear(200, 1)
        self.branch = nn.Linear(300, 200)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor, branch: bool) -> Tensor:
        self.calls += 1
        hidden = torch.tanh(self.first(x))
        hidden = torch.tanh(self.second(hidden) + (self.branch(hidden) if branch else 0))
        return self.last(hidden)


def batch(step: int, size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(size * SHARE, 10, generator=generator, dtype=torch.float64)
    return x, x.sum(1, keepdim=True).sin()


def fresh_net(seed: int) -> Net:
    torch.manual_seed(seed)
    return Net().double()


def flat(net: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


def alone(size: int, branch: str) -> Tensor:
    net = fresh_net(0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        x, y = batch(step, size)
        optimizer.zero_grad(set_to_none=branch != "sometimes")
        nn.functional.mse_loss(net(x, branch == "always" or step % 2 == 0), y).backward()
        optimizer.step()
    return flat(net)


OPTIONS = {
    "one bucket": {},
    "many small buckets": {"bucket_cap_mb": 0.05},
    "gradients as views of buckets": {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.05},
    "static graph": {"static_graph": True},
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_training_on_several_ranks_equals_training_in_one_process(ranks, size, name):
    def body(rank, size):
        net = DistributedDataParallel(fresh_net(rank), **OPTIONS[name])
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for step in range(STEPS):
            x, y = (part[rank * SHARE : (rank + 1) * SHARE] for part in batch(step, size))
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x, branch=True), y).backward()
            optimizer.step()
        mine = flat(net)
        everyone = [torch.zeros_like(mine) for _ in range(size)]
        dist.all_gather(everyone, mine)
        for other, parameters in enumerate(everyone):
            assert_same_bits(parameters, mine, f"parameters of rank {other} against rank {rank}")
        difference = float((mine - alone(size, "always")).abs().max())
        assert difference < 1e-12, f"largest difference of a parameter from one process: {difference}"

    ranks(size).run(body)


def test_parameters_that_a_step_does_not_use_are_reduced_as_zero(ranks):
    def body(rank, size):
        net = DistributedDataParallel(fresh_net(rank), find_unused_parameters=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for step in range(STEPS):
            x, y = (part[rank * SHARE : (rank + 1) * SHARE] for part in batch(step, size))
            optimizer.zero_grad(set_to_none=False)
            nn.functional.mse_loss(net(x, branch=step % 2 == 0), y).backward()
            optimizer.step()
        difference = float((flat(net) - alone(size, "sometimes")).abs().max())
        assert difference < 1e-12, difference

    ranks(2).run(body)


def test_gradients_accumulated_without_synchronising_equal_one_larger_step(ranks):
    def body(rank, size):
        net = DistributedDataParallel(fresh_net(0))
        reference = copy.deepcopy(net.module)
        for step in range(3):
            x, y = (part[rank * SHARE : (rank + 1) * SHARE] for part in batch(step, size))
            if step < 2:
                with net.no_sync():
                    nn.functional.mse_loss(net(x, branch=True), y).backward()
            else:
                nn.functional.mse_loss(net(x, branch=True), y).backward()
        for step in range(3):
            x, y = batch(step, size)
            nn.functional.mse_loss(reference(x, branch=True), y).backward()
        for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, wanted.grad, rtol=0, atol=1e-12)

    ranks(2).run(body)


def test_a_communication_hook_may_chain_on_the_future_of_an_all_reduce(ranks):
    def body(rank, size):
        calls = []

        def hook(state, bucket):
            calls.append(bucket.buffer().numel())
            future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
            return future.then(lambda done: done.value()[0] / size)

        net = DistributedDataParallel(fresh_net(0), bucket_cap_mb=0.05)
        net.register_comm_hook(None, hook)
        reference = copy.deepcopy(net.module)
        for step in range(2):
            x, y = (part[rank * SHARE : (rank + 1) * SHARE] for part in batch(step, size))
            net.zero_grad()
            nn.functional.mse_loss(net(x, branch=True), y).backward()
        x, y = batch(1, size)
        nn.functional.mse_loss(reference(x, branch=True), y).backward()
        assert calls
        for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, wanted.grad, rtol=0, atol=1e-12)

    ranks(2).run(body)


def test_ranks_with_fewer_batches_may_join_early(ranks):
    def body(rank, size):
        net = DistributedDataParallel(fresh_net(0))
        with net.join():
            for step in range(3 + rank):
                x, y = (part[rank * SHARE : (rank + 1) * SHARE] for part in batch(step, size))
                nn.functional.mse_loss(net(x, branch=True), y).backward()
        mine = flat(net)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        assert torch.equal(mine, flat(net))

    ranks(2).run(body)
