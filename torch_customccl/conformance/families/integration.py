"""What people use besides training wrappers: DTensor, checkpoints, compile, device meshes, torchrun."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Verdict
from ..registry import body, family
from .training import close, use_case

_ROWS = (
    ("dtensor", "IN-03", 2),
    ("checkpoint", "IN-05", 2),
    ("compile", "IN-07", 2),
    ("device_mesh", "IN-08", 4),
    ("torchrun", "IN-09", 2),
)


@family
def generate() -> Iterator[Case]:
    """One case per integration."""
    for name, clause, size in _ROWS:
        yield use_case(name, clause, size)


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
            close(context, [got], [whole], f"{start} to {end}")


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
    close(context, list(state.values()), list(wanted.values()), "loaded state")


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
    close(context, [got], [torch.full((4,), 2.0 * total + 4.0 * total)], "compiled result")


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
