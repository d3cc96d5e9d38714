"""What people use: data parallel, sharded, tensor parallel, pipelines, checkpoints, compile, torchrun. Full tier.

Each trains a small net one step and compares with one process on the whole batch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

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
    ("dtensor", "IN-03", 2),
    ("tensor_parallel", "IN-03", 2),
    ("pipeline", "IN-04", 2),
    ("checkpoint", "IN-05", 2),
    ("zero", "IN-06", 2),
    ("compile", "IN-07", 2),
    ("device_mesh", "IN-08", 4),
    ("torchrun", "IN-09", 2),
)
_STANDARD = ("ddp", "fsdp2", "device_mesh")
_WORDS = "allreduce broadcast all_gather reduce_scatter scatter send recv"


@family
def generate() -> Iterator[Case]:
    """One case per integration; the three most used are in the standard tier."""
    for name, clause, size in _ROWS:
        yield Case(
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


def _close(context: Context, got: list[torch.Tensor], want: list[torch.Tensor], what: str) -> None:
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
    _close(context, _gradients(model), _expected_gradients(context.size), "gradients")


@body
def with_ddp_static(context: Context) -> None:
    """static_graph."""
    model = _ddp(context, _net(), static_graph=True)
    for _ in range(3):
        model.zero_grad()
        model(_batch(context.rank)).square().mean().backward()
    _close(context, _gradients(model), _expected_gradients(context.size), "gradients")


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
    _close(context, _gradients(model), _gradients(alone), "gradients with unused parameters")


@body
def with_ddp_hook(context: Context) -> None:
    """A communication hook that chains on the future."""

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        future: torch.futures.Future[list[torch.Tensor]] = work.get_future()
        return future.then(lambda done: done.value()[0] / context.size)

    model = _ddp(context, _net())
    model.register_comm_hook(None, hook)
    model(_batch(context.rank)).square().mean().backward()
    _close(context, _gradients(model), _expected_gradients(context.size), "gradients through a hook")


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
    _close(context, got, _expected_gradients(context.size), "sharded gradients")


@body
def with_dtensor(context: Context) -> None:
    """Between all placements of a matrix."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (context.size,))
    whole = torch.arange(48.0).reshape(6, 8)
    places = (Replicate(), Shard(0), Shard(1))
    for start in places:
        for end in places:
            got = distribute_tensor(whole, mesh, [start]).redistribute(mesh, [end]).full_tensor()
            _close(context, [got], [whole], f"{start} to {end}")


@body
def with_tensor_parallel(context: Context) -> None:
    """One column-wise and one row-wise layer."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh, alone = init_device_mesh("cpu", (context.size,)), _net()
    net = parallelize_module(_net(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    _close(context, [net(_batch(0)).detach()], [alone(_batch(0)).detach()], "output")


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
    _close(context, _gradients(part), want, "gradients of a stage")


@body
def with_checkpoint(context: Context) -> None:
    """Save from all ranks, change, load."""
    import torch.distributed.checkpoint as checkpoint

    folder = Path(context.spec.directory) / "checkpoint"
    state = {"shared": torch.arange(10.0), f"own{context.rank}": torch.full((4,), float(context.rank))}
    wanted = {name: value.clone() for name, value in state.items()}
    checkpoint.save(state, checkpoint_id=str(folder))
    for value in state.values():
        value.fill_(-1)
    checkpoint.load(state, checkpoint_id=str(folder))
    _close(context, list(state.values()), list(wanted.values()), "loaded state")


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
    _close(context, [p.detach() for p in model.parameters()], [p.detach() for p in alone.parameters()], "weights")


@body
def with_compile(context: Context) -> None:
    """A compiled function (no code generation) with two functional collectives."""
    import torch.distributed._functional_collectives as functions

    group = list(range(context.size))

    def step(x: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = functions.all_reduce(x * 2, "sum", group)
        return summed + functions.all_gather_tensor(x, 0, group).sum()

    x = torch.full((4,), float(context.rank + 1))
    total = sum(range(1, context.size + 1))
    got = torch.compile(step, backend="aot_eager", fullgraph=True)(x)
    _close(context, [got], [torch.full((4,), 2.0 * total + 4.0 * total)], "compiled result")


@body
def with_device_mesh(context: Context) -> None:
    """Two by two: a sum along each dimension."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
    row, column = divmod(context.rank, 2)
    for name, want in (("row", column * 2 + 2), ("column", 4 * row + 1)):
        value = torch.full((3,), float(context.rank))
        dist.all_reduce(value, group=mesh.get_group(name))
        context.expect(
            bool((value == want).all()), f"sum along {name} is {value[0].item()}, expected {want}", Verdict.WRONG_RESULT
        )


_SCRIPT = """
import importlib, sys
import torch, torch.distributed as dist
for name in sys.argv[2:]:
    importlib.import_module(name)
dist.init_process_group(sys.argv[1])
value = torch.ones(3)
dist.all_reduce(value)
assert value[0].item() == dist.get_world_size(), value
dist.destroy_process_group()
"""


@body
def with_torchrun(context: Context) -> None:
    """Rank 0 launches two ranks with torchrun; the other rank only waits."""
    dist.all_reduce(torch.ones(1))
    if context.rank == 0:
        script = Path(context.spec.directory) / "launched.py"
        script.write_text(_SCRIPT)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                "2",
                str(script),
                context.backend,
                *context.spec.imports,
            ],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        context.expect(done.returncode == 0, f"torchrun ended with {done.returncode}: {done.stderr[-400:]}")
    context.meet("launched")
