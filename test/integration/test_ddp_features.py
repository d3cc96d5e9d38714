"""DistributedDataParallel: compressing hooks, buffers, uneven inputs, what it refuses on CPUs."""

from __future__ import annotations

import copy
import os
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch.utils.checkpoint
from harness import worker
from harness.rank import init_group
from harness.settings import GROUP_TIMEOUT_S
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

SHARE = 4  # samples per rank and step


def fresh_net() -> nn.Sequential:
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 8))


class Recomputing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.unused = fresh_net(), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)


def batch(step: int, rank: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(SHARE, 12, generator=generator)
    return x, x[:, :8].sin()


def loss(net: nn.Module, step: int, rank: int) -> Tensor:
    x, y = batch(step, rank)
    return nn.functional.mse_loss(net(x), y)


def train_alone(net: nn.Module, steps: int, size: int, lengths: list[int] | None = None) -> None:
    """What `size` ranks learn; rank r has `lengths[r]` batches, and gradients are divided by the number of ranks."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(size):
            if lengths is None or step < lengths[rank]:
                (loss(net, step, rank) / size).backward()
        optimizer.step()


def train(net: nn.Module, steps: int, rank: int) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss(net, step, rank).backward()
        optimizer.step()


def check_equal_everywhere(net: nn.Module) -> None:
    for tensor in net.state_dict().values():
        copies = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(copies, tensor)
        assert all(torch.equal(copy_, tensor) for copy_ in copies)


def check_close(net: nn.Module, wanted: nn.Module, tolerance: float) -> None:
    for mine, other in zip(net.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=0, atol=tolerance)


def test_gradients_compressed_to_half_precision_are_close_to_exact_ones(ranks):
    def body(rank, size):
        net, reference = DistributedDataParallel(fresh_net()), fresh_net()
        net.register_comm_hook(None, default_hooks.fp16_compress_hook)
        train(net, 4, rank)
        train_alone(reference, 4, size)
        check_equal_everywhere(net.module)
        check_close(net, reference, 1e-3)

    ranks(3).run(body)


def test_power_sgd_of_full_rank_loses_nothing(ranks):
    """PowerSGD starts all_reduces from inside the callbacks of others.

    One bucket: with several, the order of what different callbacks start is up to the threads of each rank, on every
    backend whose futures complete when the data is there (gloo runs into its timeout).
    """

    def body(rank, size):
        net, reference = DistributedDataParallel(fresh_net()), fresh_net()
        state = powerSGD_hook.PowerSGDState(
            None, matrix_approximation_rank=32, start_powerSGD_iter=2, min_compression_rate=0.01
        )
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        train(net, 6, rank)
        train_alone(reference, 6, size)
        check_equal_everywhere(net.module)
        check_close(net, reference, 1e-4)
        assert state.total_numel_after_compression > 0, "PowerSGD compressed nothing"

    ranks(2).run(body)


def test_power_sgd_of_low_rank_keeps_ranks_equal(ranks):
    def body(rank, size):
        net = DistributedDataParallel(fresh_net())
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        train(net, 6, rank)
        check_equal_everywhere(net.module)

    ranks(3).run(body)


def test_buffers_are_those_of_rank_0(ranks):
    def body(rank, size):
        net = nn.BatchNorm1d(12, momentum=1.0)
        ddp = DistributedDataParallel(net)
        for step in range(2):
            ddp(batch(step, rank)[0])
        ddp.eval()
        dist.barrier()
        ddp.train()
        ddp(batch(2, rank)[0])  # sends rank 0's buffers of step 1 before it updates them with step 2
        assert int(net.num_batches_tracked) == 3
        torch.testing.assert_close(net.running_mean, batch(2, rank)[0].mean(0))
        net.momentum = 0.0  # the next step leaves what was sent as it is
        ddp(batch(3, rank)[0])
        torch.testing.assert_close(net.running_mean, batch(2, 0)[0].mean(0))

    ranks(2).run(body)


def test_joining_early_means_gradients_of_zero(ranks):
    def body(rank, size):
        lengths = [2 + r for r in range(size)]
        net, reference = DistributedDataParallel(fresh_net()), fresh_net()
        with net.join(divide_by_initial_world_size=True):
            train(net, lengths[rank], rank)
        train_alone(reference, max(lengths), size, lengths)
        check_equal_everywhere(net.module)
        check_close(net, reference, 1e-6)

    ranks(3).run(body)


def test_a_static_graph_with_an_unused_layer_and_recomputation(ranks):
    def body(rank, size):
        reference = fresh_net()
        net = DistributedDataParallel(Recomputing(), static_graph=True)
        train(net, 4, rank)
        train_alone(reference, 4, size)
        check_close(net.module.inner, reference, 1e-6)

    ranks(2).run(body)


def test_accumulation_without_synchronisation_twice_in_a_row(ranks):
    def body(rank, size):
        net, reference = DistributedDataParallel(fresh_net(), gradient_as_bucket_view=True), fresh_net()
        for first in (0, 2):
            net.zero_grad(), reference.zero_grad()
            with net.no_sync():
                loss(net, first, rank).backward()
            loss(net, first + 1, rank).backward()
            for step in (first, first + 1):
                for other in range(size):
                    (loss(reference, step, other) / size).backward()
            for mine, wanted in zip(net.parameters(), reference.parameters(), strict=True):
                torch.testing.assert_close(mine.grad, wanted.grad, rtol=0, atol=1e-6)

    ranks(2).run(body)


def test_models_that_differ_between_ranks_are_refused(ranks):
    """Rank 0 holds the model that the others compare with; when they leave, it times out."""

    def body(rank, size):
        with pytest.raises(RuntimeError, match=r"rank 1|appears not to match"):
            DistributedDataParallel(nn.Linear(4 + rank, 2))

    ranks(2, fresh=True, timeout=2).run(body)


def test_synchronised_batch_norm_is_refused_by_torch_on_cpus(ranks):
    def body(rank, size):
        net = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8)))
        with pytest.raises(ValueError, match="SyncBatchNorm expected input tensor to be on"):
            copy.deepcopy(net)(torch.ones(4, 12))

    ranks(2).run(body)


def shared_bytes() -> int:
    """Of tensors in this process's shared memory, and what else lies there."""
    stats = dist.group.WORLD._get_backend(torch.device("cpu")).memory_stats()
    return stats["arena_bytes_in_use"] - stats["arena_bytes_waiting"]


def trained(rank: int, view: bool, share: bool) -> nn.Module:
    """Parameters of 640 KiB, by a module whose buckets lie in shared memory or do not."""
    torch.manual_seed(7)
    before = shared_bytes()
    net = nn.Sequential(nn.Linear(12, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 8))
    parallel = DistributedDataParallel(net, gradient_as_bucket_view=view)
    train(parallel, 4, rank)
    assert (shared_bytes() - before > 640 * 1024) == share
    return net


@pytest.mark.parametrize("view", [False, True])
def test_buckets_lie_in_shared_memory_unless_told_otherwise(ranks, view):
    """The same bits as with buckets anywhere; float32 of 640 KiB, so the ranks do write into each other's buckets."""

    def body(rank, size):
        assert os.environ["DDP_DISABLE_COMM_MEM"] == "0"  # of itself, where no accelerator is
        here = trained(rank, view, True)
        with mock.patch.dict(os.environ, DDP_DISABLE_COMM_MEM="1"):
            elsewhere = trained(rank, view, False)
        for one, other in zip(here.parameters(), elsewhere.parameters(), strict=True):
            assert torch.equal(one, other)

    ranks(3).run(body)


def test_buckets_for_which_there_is_no_room_lie_in_ordinary_memory(ranks):
    def body(rank, size):
        os.environ["CUSTOMCCL_ARENA_BYTES"] = "16M"
        init_group(rank, size, worker.seat.store(), GROUP_TIMEOUT_S)
        torch.manual_seed(7)
        net = DistributedDataParallel(nn.Linear(2048, 2048))  # 17 MB
        net(torch.full((1, 2048), rank + 1.0)).sum().backward()
        assert shared_bytes() < 1 << 24
        return net.module.weight.grad.unique().tolist()

    assert ranks(2, fresh=True, init=False).run(body) == [[1.5], [1.5]]
