"""End to end: what a training or serving loop feels. `bind(name, group)` makes one step with `group` communicating."""

import copy
import os
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from benchmarks.plan import DDP_LAYERS, DDP_WIDTH

Step = Callable[[], object]


def bind(name: str, group: Any) -> Step:
    return _STEPS[name](group)


def communicates_by_all_reduce(name: str) -> bool:
    """And by nothing else, so that it can run over a relay."""
    return name in ("ddp_step", "ddp_step_staged", "token_loop")


def names() -> list[str]:
    return list(_STEPS)


def _net(width: int, layers: int) -> nn.Sequential:
    torch.manual_seed(7)
    blocks = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*blocks)


def _train(net: nn.Module, x: Tensor) -> Step:
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        net(x).square().mean().backward()
        optimizer.step()

    return step


def ddp_step(group: Any) -> Step:
    """25 million parameters, as a ResNet-50 has, 100 MB of gradients in torch's buckets of 25 MiB."""
    # init_sync: a backend that does nothing cannot compare shapes; all ranks start from one seed anyway.
    net = _net(DDP_WIDTH, DDP_LAYERS)
    parallel = nn.parallel.DistributedDataParallel(net, process_group=group, init_sync=False)
    step = _train(parallel, torch.randn(16, DDP_WIDTH))
    for _ in range(2):
        step()  # the second makes the buckets anew, in the order of the gradients: over this backend, in its memory
    return step


def ddp_step_staged(group: Any) -> Step:
    """The same with buckets of torch's own also where the backend would allocate them."""
    with mock.patch.dict(os.environ, DDP_DISABLE_COMM_MEM="1"):
        return ddp_step(group)


def fsdp2_step(group: Any, *, shared: bool = False) -> Step:
    """fully_shard over 8 layers of 1 million parameters: all_gather before each layer, reduce_scatter after."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    mesh = DeviceMesh.from_group(group, "cpu")
    net = copy.deepcopy(_net(1024, 8))
    for module in net:
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh)
    fully_shard(net, mesh=mesh)
    for module in net.modules():
        if shared and isinstance(module, FSDPModule):
            module.set_allocate_memory_from_process_group_for_comm(True)
    return _train(net, torch.randn(16, 1024))


def token_loop(group: Any) -> Step:
    """One token through 8 tensor-parallel layers of width 512: two all_reduce of 2 KiB per layer."""
    ranks = dist.get_world_size()
    width, layers = 512, 8
    torch.manual_seed(7)
    up = [torch.randn(4 * width // ranks, width) / width for _ in range(layers)]
    down = [torch.randn(width, 4 * width // ranks) / width for _ in range(layers)]
    mix = [torch.randn(width, width) / width for _ in range(layers)]
    token = torch.randn(width)

    @torch.no_grad()
    def step() -> None:
        x = token
        for a, b, c in zip(up, down, mix, strict=True):
            attended = c @ x
            dist.all_reduce(attended, group=group)
            hidden = b @ torch.relu(a @ attended)
            dist.all_reduce(hidden, group=group)
            x = hidden

    return step


def new_group(group: Any) -> Step:
    """A new group of the same backend over the same ranks, its first barrier, and its end."""
    backend = dist.get_backend(group)

    def step() -> None:
        fresh = dist.new_group(backend=backend)
        dist.barrier(group=fresh)
        dist.destroy_process_group(fresh)

    return step


_STEPS: dict[str, Callable[[Any], Step]] = {
    "ddp_step": ddp_step,
    "ddp_step_staged": ddp_step_staged,
    "fsdp2_step": fsdp2_step,
    "fsdp2_step_shared": partial(fsdp2_step, shared=True),
    "token_loop": token_loop,
    "new_group": new_group,
}
