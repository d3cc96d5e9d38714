"""fully_shard (FSDP2) learns what one process learns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

STEPS, SHARE = 3, 4


def fresh_net() -> nn.Sequential:
    """Sizes that no number of ranks above 1 divides: shards are uneven, some are empty."""
    torch.manual_seed(11)
    return nn.Sequential(nn.Linear(7, 13), nn.Tanh(), nn.Linear(13, 1), nn.Linear(1, 5))


def loss(net: nn.Module, step: int, rank: int) -> Tensor:
    x = torch.randn(SHARE, 7, generator=torch.Generator().manual_seed(100 * step + rank))
    return nn.functional.mse_loss(net(x).float(), x[:, :5].cos())


def train(net: nn.Module, batches: list[list[int]]) -> list[float]:
    """Each step takes the mean over the given ranks' batches; the losses of the steps."""
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for step, of_ranks in enumerate(batches):
        optimizer.zero_grad()
        total = torch.stack([loss(net, step, rank) for rank in of_ranks]).mean()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    return losses


def check_against_one_process(net: nn.Module, size: int, tolerance: float = 1e-6) -> None:
    reference = fresh_net()
    train(reference, [list(range(size))] * STEPS)
    for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine.full_tensor(), wanted, rtol=0, atol=tolerance)


def shard(net: nn.Sequential, **options) -> nn.Module:
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, **options)
    return fully_shard(net, **options)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("reshard", [True, False])
def test_sharded_training_equals_training_in_one_process(ranks, size, reshard):
    def body(rank, size):
        net = shard(fresh_net(), mesh=init_device_mesh("cpu", (size,)), reshard_after_forward=reshard)
        train(net, [[rank]] * STEPS)
        check_against_one_process(net, size)

    ranks(size).run(body)


def test_sharded_and_replicated_training_equals_training_in_one_process(ranks):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        net = shard(fresh_net(), mesh=mesh)
        train(net, [[rank]] * STEPS)
        check_against_one_process(net, size)

    ranks(4).run(body)


def test_a_divide_factor_of_ones_own(ranks):
    """Reduces with PREMUL_SUM, which gloo refuses."""

    def body(rank, size):
        net = shard(fresh_net(), mesh=init_device_mesh("cpu", (size,)))
        for module in net.modules():
            if hasattr(module, "set_gradient_divide_factor"):
                module.set_gradient_divide_factor(float(size))
        train(net, [[rank]] * STEPS)
        check_against_one_process(net, size)

    ranks(2).run(body)


def test_parameters_and_gradients_in_bfloat16(ranks):
    def body(rank, size):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
        net = shard(fresh_net(), mesh=init_device_mesh("cpu", (size,)), mp_policy=policy)
        train(net, [[rank]] * STEPS)
        check_against_one_process(net, size, tolerance=0.1)
        assert all(parameter.dtype == torch.float32 for parameter in net.parameters())

    ranks(2).run(body)


def test_communication_buffers_from_the_group(ranks):
    def body(rank, size):
        net = shard(fresh_net(), mesh=init_device_mesh("cpu", (size,)))
        for module in net.modules():
            if hasattr(module, "set_allocate_memory_from_process_group_for_comm"):
                module.set_allocate_memory_from_process_group_for_comm(True)
        train(net, [[rank]] * STEPS)
        check_against_one_process(net, size)

    ranks(2).run(body)


def test_gradients_accumulated_without_reduction(ranks):
    def body(rank, size):
        net, reference = shard(fresh_net(), mesh=init_device_mesh("cpu", (size,))), fresh_net()
        for step in range(3):
            net.set_requires_gradient_sync(step == 2)
            loss(net, step, rank).backward()
            for other in range(size):
                (loss(reference, step, other) / size).backward()
        for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(mine.grad.full_tensor(), wanted.grad, rtol=0, atol=1e-6)

    ranks(2).run(body)
