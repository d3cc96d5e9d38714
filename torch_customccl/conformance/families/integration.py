"""What people use besides training wrappers: DTensor, checkpoints, compile, meshes, torchrun, groups of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..group_options import SCRIPT
from ..model import Case, Verdict
from ..registry import body, family
from .training import close, use_case

_ROWS = (
    ("dtensor", "IN-03", 2),
    ("checkpoint", "IN-05", 2),
    ("compile", "IN-07", 2),
    ("device_mesh", "IN-08", 4),
    ("torchrun", "IN-09", 2),
    ("listed_works", "IN-10", 2),
    ("python_group", "IN-11", 2),
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


@body
def with_listed_works(context: Context) -> None:
    """torch lists what is in flight, and wait_tensor() waits for what is on the list."""
    from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx

    rank, size = context.rank, context.size
    summed, sent, late = (torch.full((4,), rank + number) for number in (1.0, 10.0, 20.0))
    with allow_inflight_collective_as_graph_input_ctx():
        dist.all_reduce(summed)
        dist.broadcast(sent, 1)
        work = dist.broadcast(late, 0, async_op=True)
        work.wait()
    got = [torch.ops._c10d_functional.wait_tensor(each) for each in (summed, sent, late)]
    want = [size * (size + 1) / 2, 11.0, 20.0]
    close(context, got, [torch.full((4,), value) for value in want], "what is on the list")


class _OverAnother(dist.ProcessGroup):
    """As trainers have them. all_to_all_single goes by the name of torch 2.12, by which later versions find it, too."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner.rank(), inner.size())  # type: ignore[call-arg]
        self._inner = inner

    def allreduce(self, *args: Any) -> Any:
        return self._inner.allreduce(*args)

    def broadcast(self, *args: Any) -> Any:
        return self._inner.broadcast(*args)

    def alltoall_base(self, *args: Any) -> Any:
        exchange = getattr(self._inner, "all_to_all_single", None) or self._inner.alltoall_base
        return exchange(*args)


@body
def with_python_group(context: Context) -> None:
    """Operations of a group that hands them on, and its asynchronous ones."""
    rank, size = context.rank, context.size
    group = _OverAnother(dist.group.WORLD)
    for async_op in (False, True):
        summed, sent, given = torch.full((4,), rank + 1.0), torch.full((4,), rank + 10.0), torch.arange(2.0 * size)
        exchanged = torch.empty_like(given)
        works = [
            dist.all_reduce(summed, group=group, async_op=async_op),
            group.broadcast([sent], dist.BroadcastOptions()),
            dist.all_to_all_single(exchanged, given + 100 * rank, group=group, async_op=async_op),
        ]
        for work in works:
            if work is not None:
                work.wait()
        want = [torch.full((4,), size * (size + 1) / 2), torch.full((4,), 10.0)]
        parts = [given.chunk(size)[rank] + 100 * other for other in range(size)]
        close(context, [summed, sent, exchanged], [*want, torch.cat(parts)], "by way of a group written in Python")


_SCRIPT = f"""
import importlib, sys
import torch, torch.distributed as dist
{SCRIPT}
for name in sys.argv[3:]:
    importlib.import_module(name)
dist.init_process_group(sys.argv[1], pg_options=options_of(sys.argv[2]))
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
                context.spec.pg_options,
                *context.spec.imports,
            ],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        context.expect(done.returncode == 0, f"torchrun ended with {done.returncode}: {done.stderr[-400:]}")
    context.meet("launched")
