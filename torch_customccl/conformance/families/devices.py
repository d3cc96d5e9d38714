"""Devices: tensors where the group has no backend, alone or mixed into a list; pinned memory; groups by device.

torch answers most calls on meta tensors itself and never asks the backend, so these are made on the backend's own
methods; a list is looked at by the backend in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, CheckFailedError, Tier, Verdict
from ..registry import body, family

_LISTS = {
    "all_gather_output": "all_gather",
    "gather_output": "gather",
    "scatter_input": "scatter",
    "reduce_scatter_input": "reduce_scatter",
}
_METHODS = ("all_reduce", "broadcast", "all_gather_into_tensor", "send_recv")


@family
def generate() -> Iterator[Case]:
    """Each way a tensor of another device can come in, for the devices meta and cuda."""
    for elsewhere in ("meta", "cuda"):
        for kind, op in _LISTS.items():
            yield _case(f"{op}/{elsewhere}_in_list", "GR-07", "mixed_list", op, kind=kind, elsewhere=elsewhere)
        for op in _METHODS:
            tier = Tier.SMOKE if (op, elsewhere) == ("all_reduce", "meta") else Tier.STANDARD
            yield _case(f"{op}/{elsewhere}", "GR-07", "on_another_device", op, tier, elsewhere=elsewhere)
    yield _case("all_reduce/pinned", "GR-08", "pinned", "all_reduce")
    setup = {"init": False, "op_timeout_s": 15.0, "deadline_s": 40.0, "cost_s": 1.0}
    for kind in ("named", "two_backends"):
        yield _case(f"init/{kind}", "GR-09", "by_device", "all_reduce", kind=kind, setup=setup)


def _case(name: str, clause: str, function: str, op: str, tier: Tier = Tier.STANDARD, **dims: Any) -> Case:
    """In a set of its own: a refused tensor may leave the group broken, which is another clause's matter."""
    setup = dims.pop("setup", {})
    dims = {"op": op, "kind": name, **dims}
    return Case(f"devices/{name}/ws2", "devices", clause, function, 2, dims, tier, "fresh", setup)


def _elsewhere(context: Context) -> torch.Tensor:
    """Four numbers on a device that is not the tested one."""
    name = context.dims["elsewhere"]
    if name == "cuda" and (context.device == "cuda" or not torch.cuda.is_available()):
        raise CheckFailedError(Verdict.NOT_APPLICABLE, "no CUDA device beside the tested device")
    return torch.ones(4, device=name)


def _refused(context: Context, call: Callable[[], Any], what: str) -> None:
    """Any prompt exception will do; carrying the call out will not."""
    try:
        context.refused(call, what, ("device", "meta", "cuda", "cpu", "backend", "tensor"), context.op_timeout_s / 2)
    except CheckFailedError:
        raise
    except Exception as error:
        context.note(refused_with=str(error)[:300])


@body
def mixed_list(context: Context) -> None:
    """The last tensor of a list lies elsewhere; the others are where they belong."""
    context.require_support("all_reduce")
    odd, one = _elsewhere(context), torch.ones(4, device=context.device)
    many = [*(torch.zeros(4, device=context.device) for _ in range(context.size - 1)), odd]
    first = context.rank == 0
    calls: dict[str, Callable[[], Any]] = {
        "all_gather": lambda: dist.all_gather(many, one),
        "gather": lambda: dist.gather(one, many if first else None, dst=0),
        "scatter": lambda: dist.scatter(one, many if first else None, src=0),
        "reduce_scatter": lambda: dist.reduce_scatter(one, many),
    }
    if context.op in ("gather", "scatter") and not first:
        context.note(bystander=True)
        return
    _refused(context, calls[context.op], f"{context.op} with a tensor on {odd.device.type} in its list")


@body
def on_another_device(context: Context) -> None:
    """The backend's own method is given a tensor that lies elsewhere."""
    context.require_support("all_reduce")
    odd = _elsewhere(context)
    group: Any = dist.group.WORLD
    try:
        backend = group._get_backend(torch.device(context.device))
    except RuntimeError:
        backend = group
    joined = torch.zeros(4 * context.size, device=context.device)
    options = dist.distributed_c10d.AllgatherOptions()
    # A group written in Python has the method under its newer name only.
    all_gather = getattr(backend, "all_gather_single", None) or backend._allgather_base
    calls: dict[str, Callable[[], Any]] = {
        "all_reduce": lambda: backend.allreduce([odd], dist.AllreduceOptions()),
        "broadcast": lambda: backend.broadcast([odd], dist.BroadcastOptions()),
        "all_gather_into_tensor": lambda: all_gather(joined, odd, options),
        "send_recv": lambda: backend.send([odd], 1 - context.rank, 0),
    }
    _refused(context, calls[context.op], f"{context.op} of a tensor on {odd.device.type}")


@body
def pinned(context: Context) -> None:
    """A host tensor in pinned memory is a host tensor."""
    if not torch.cuda.is_available():
        raise CheckFailedError(Verdict.NOT_APPLICABLE, "no device to pin memory for")
    value = torch.full((1000,), float(context.rank + 1), pin_memory=True)
    dist.all_reduce(value)
    want = sum(range(1, context.size + 1))
    context.expect(bool((value == want).all()), f"sum {value[0].item()}, expected {want}", Verdict.WRONG_RESULT)


@body
def by_device(context: Context) -> None:
    """The backend is asked for by device; with two backends the other device gets one of its own."""
    device, other = context.device, "cpu" if context.device == "cuda" else "cuda"
    wanted = f"{device}:{context.backend}"
    if context.dims["kind"] == "two_backends":
        available = {"cpu": dist.is_gloo_available(), "cuda": dist.is_nccl_available() and torch.cuda.is_available()}
        if not available[other]:
            raise CheckFailedError(Verdict.NOT_APPLICABLE, f"no {other} backend of torch's own here")
        wanted += f",{other}:{'gloo' if other == 'cpu' else 'nccl'}"
    store, timeout = dist.PrefixStore("by device", context.store), timedelta(seconds=context.op_timeout_s)
    dist.init_process_group(wanted, store=store, rank=context.rank, world_size=context.size, timeout=timeout)
    value = torch.ones(10, device=device)
    dist.all_reduce(value)
    context.expect(bool((value == context.size).all()), f"sum of ones is {value[0].item()}", Verdict.WRONG_RESULT)
    dist.destroy_process_group()
