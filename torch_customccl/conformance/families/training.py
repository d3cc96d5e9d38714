"""Training: data parallel, sharded, tensor parallel, pipelined.

Each trains a small net a step or two and compares with one process on the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from ..context import Context
from ..model import Case, Tier, Verdict
from ..registry import body, family

_ROWS = (
    ("ddp", "IN-01", 2),
    ("ddp", "IN-01", 3),
    ("ddp_unused", "IN-01", 2),
    ("ddp_static", "IN-01", 2),
    ("ddp_hook", "IN-01", 2),
    ("ddp_join", "IN-01", 2),
    ("fsdp2", "IN-02", 2),
    ("tensor_parallel", "IN-03", 2),
    ("pipeline", "IN-04", 2),
    ("zero", "IN-06", 2),
)
_STANDARD = ("ddp", "fsdp2", "device_mesh")
_WORDS = "allreduce broadcast all_gather reduce_scatter scatter send recv"


def use_case(name: str, clause: str, size: int) -> Case:
    """A case of something people use; the three most used are in the standard tier, the rest in the full one."""
    return Case(
        f"integration/{name}/ws{size}",
        "integration",
        clause,
        f"with_{name}",
        size,
        {"op": name, "kind": name, "words": _WORDS},
        Tier.STANDARD if name in _STANDARD else Tier.FULL,
        "fresh",
        setup={"op_timeout_s": 20.0, "deadline_s": 60.0, "cost_s": 8.0},
    )


@family
def generate() -> Iterator[Case]:
    """One case per way to train."""
    for name, clause, size in _ROWS:
        yield use_case(name, clause, size)


def _net() -> nn.Sequential:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))


def _batch(rank: int) -> torch.Tensor:
    return torch.randn(6, 12, generator=torch.Generator().manual_seed(100 + rank))


def _expected_gradients(size: int) -> list[torch.Tensor]:
    """Gradients of the mean loss over all ranks' batches, computed in this process alone."""
    net = _net()
    net(torch.cat([_batch(rank) for rank in range(size)])).square().mean().backward()
    return [parameter.grad for parameter in net.parameters() if parameter.grad is not None]


def close(context: Context, got: list[torch.Tensor], want: list[torch.Tensor], what: str) -> None:
    context.expect(len(got) == len(want), f"{what}: {len(got)} tensors, expected {len(want)}")
    for index, (left, right) in enumerate(zip(got, want, strict=True)):
        off = float((left - right).abs().max()) if left.shape == right.shape else float("inf")
        context.expect(off < 1e-4, f"{what}: tensor {index} is off by {off:.2g}", Verdict.WRONG_RESULT)


def _gradients(module: nn.Module) -> list[torch.Tensor]:
    return [parameter.grad for parameter in module.parameters() if parameter.grad is not None]


def _ddp(context: Context, net: nn.Module, **options: bool) -> nn.parallel.DistributedDataParallel:
    return nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.001, **options)  # type: ignore[arg-type]


@body
def with_ddp(context: Context) -> None:
    """Many small buckets."""
    model = _ddp(context, _net())
    for _ in range(2):
        model.zero_grad()
        model(_batch(context.rank)).square().mean().backward()
    close(context, _gradients(model), _expected_gradients(context.size), "gradients")


@body
def with_ddp_static(context: Context) -> None:
    """static_graph."""
    model = _ddp(context, _net(), static_graph=True)
    for _ in range(3):
        model.zero_grad()
        model(_batch(context.rank)).square().mean().backward()
    close(context, _gradients(model), _expected_gradients(context.size), "gradients")


@body
def with_ddp_unused(context: Context) -> None:
    """Rank 0 leaves out the middle layer."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(6)
            self.first, self.maybe = nn.Linear(12, 12), nn.Linear(12, 12)

        def forward(self, x: torch.Tensor, skip: bool) -> torch.Tensor:
            y: torch.Tensor = self.first(x)
            return y if skip else self.maybe(y)

    model = _ddp(context, Net(), find_unused_parameters=True)
    model(_batch(context.rank), context.rank == 0).square().mean().backward()
    alone = Net()
    for rank in range(context.size):
        (alone(_batch(rank), rank == 0).square().mean() / context.size).backward()
    close(context, _gradients(model), _gradients(alone), "gradients with unused parameters")


@body
def with_ddp_hook(context: Context) -> None:
    """A communication hook that chains on the future."""

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        future: torch.futures.Future[list[torch.Tensor]] = work.get_future()
        return future.then(lambda done: done.value()[0] / context.size)

    hook.__annotations__.clear()  # torch compares them with its types, and in this module they are strings
    model = _ddp(context, _net())
    model.register_comm_hook(None, hook)
    model(_batch(context.rank)).square().mean().backward()
    close(context, _gradients(model), _expected_gradients(context.size), "gradients through a hook")


@body
def with_ddp_join(context: Context) -> None:
    """Uneven inputs under join: the last rank has one batch less."""
    model = _ddp(context, _net())
    with model.join():
        for _ in range(3 if context.rank < context.size - 1 else 2):
            model(_batch(context.rank)).square().mean().backward()
    mine = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    for theirs in context.exchange("weights", mine.numpy().tobytes()):
        context.expect(theirs == mine.numpy().tobytes(), "ranks hold different weights", Verdict.WRONG_RESULT)


@body
def with_fsdp2(context: Context) -> None:
    """fully_shard with its default AVG."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    net, mesh = _net(), init_device_mesh("cpu", (context.size,))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    net(_batch(context.rank)).square().mean().backward()
    got = [grad.full_tensor() if isinstance(grad, DTensor) else grad for grad in _gradients(net)]
    close(context, got, _expected_gradients(context.size), "sharded gradients")


@body
def with_tensor_parallel(context: Context) -> None:
    """One column-wise and one row-wise layer."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh, alone = init_device_mesh("cpu", (context.size,)), _net()
    net = parallelize_module(_net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    close(context, [net(_batch(0)).detach()], [alone(_batch(0)).detach()], "output")


@body
def with_pipeline(context: Context) -> None:
    """Two stages, 1F1B, four microbatches."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    whole, x = _net(), torch.cat([_batch(rank) for rank in range(4)])
    part = whole[:2] if context.rank == 0 else whole[2:]
    stage = PipelineStage(part, context.rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda out, target: (out - target).square().mean())
    target = torch.zeros(24, 8)
    schedule.step(x) if context.rank == 0 else schedule.step(target=target)
    alone = _net()
    alone(x).square().mean().backward()
    want = [p.grad for p in (alone[:2] if context.rank == 0 else alone[2:]).parameters() if p.grad is not None]
    close(context, _gradients(part), want, "gradients of a stage")


@body
def with_zero(context: Context) -> None:
    """ZeroRedundancyOptimizer against plain SGD."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model, alone = _ddp(context, _net()), _net()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    model(_batch(context.rank)).square().mean().backward()
    optimizer.step()
    plain = torch.optim.SGD(alone.parameters(), lr=0.1)
    alone(torch.cat([_batch(rank) for rank in range(context.size)])).square().mean().backward()
    plain.step()
    close(context, [p.detach() for p in model.parameters()], [p.detach() for p in alone.parameters()], "weights")
