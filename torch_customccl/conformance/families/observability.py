"""What can be seen from outside: profiler events, names, sequence numbers, output, the debug wrapper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, Tier, Verdict
from ..registry import body, family


@family
def generate() -> Iterator[Case]:
    """One case per property."""
    for op in ("all_reduce", "broadcast", "all_gather", "reduce_scatter_tensor", "barrier", "send_recv"):
        yield Case(
            f"seen/profiler/{op}/ws2",
            "observability",
            "OV-01",
            "profiled",
            2,
            {"op": op, "kind": "profiler"},
            setup={"deadline_s": 30.0},
        )
    yield Case("seen/name/ws2", "observability", "OV-02", "named", 2, {"op": "all_reduce", "kind": "name"}, Tier.SMOKE)
    yield Case("seen/sequence/ws2", "observability", "OV-03", "sequence", 2, {"op": "all_reduce", "kind": "sequence"})
    yield Case(
        "seen/quiet/ws2", "observability", "OV-04", "quiet", 2, {"op": "all_reduce", "kind": "quiet"}, isolation="fresh"
    )
    yield Case(
        "seen/detail/ws2",
        "observability",
        "OV-05",
        "with_detail",
        2,
        {"op": "all_reduce", "kind": "detail"},
        isolation="fresh",
        setup={"env": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}},
    )


def _issue(context: Context, op: str) -> None:
    value = torch.ones(6, device=context.device)
    many = [torch.zeros(6, device=context.device) for _ in range(context.size)]
    joined = torch.ones(6 * context.size, device=context.device)
    calls: dict[str, Any] = {
        "all_reduce": lambda: dist.all_reduce(value),
        "broadcast": lambda: dist.broadcast(value, 0),
        "all_gather": lambda: dist.all_gather(many, value),
        "barrier": lambda: dist.barrier(),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(value, joined),
        "send_recv": lambda: dist.send(value, 1) if context.rank == 0 else dist.recv(value, 0),
    }
    calls[op]()


@body
def profiled(context: Context) -> None:
    """Some event of the profile has the operation in its name."""
    _issue(context, context.op)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        _issue(context, context.op)
    events = [event.key for event in profile.key_averages()]
    stems = {
        "send_recv": ("send", "recv"),
        "all_reduce": ("all_reduce", "allreduce"),
        "all_gather": ("all_gather", "allgather"),
        "reduce_scatter_tensor": ("reduce_scatter",),
    }.get(context.op, (context.op,))
    named = [key for key in events if any(stem in key.lower() for stem in stems) and not key.startswith("aten::")]
    own = [key for key in named if key.startswith(f"{context.backend}:")]
    context.note(events=named[:5], own_events=own[:3])
    context.expect(bool(named), f"no event of {context.op} among {events[:8]}", Verdict.NONSTRICT)


@body
def named(context: Context) -> None:
    """get_backend gives the name asked for, before and after an operation."""
    _issue(context, "all_reduce")
    said = dist.get_backend()
    context.expect(said == context.backend.lower(), f"get_backend() says {said!r}, asked for {context.backend!r}")


@body
def sequence(context: Context) -> None:
    """Recorded: by how much the number rises with three collectives."""
    _issue(context, "all_reduce")
    group: Any = dist.group.WORLD
    try:
        backend = group._get_backend(torch.device(context.device))
    except RuntimeError:
        backend = group
    first = backend._get_sequence_number_for_group()
    for _ in range(3):
        _issue(context, "all_reduce")
    context.note(verdict="info", rise_per_3=backend._get_sequence_number_for_group() - first)


@body
def quiet(context: Context) -> None:
    """The rank's output file does not grow while it works."""
    log = Path(context.spec.directory) / f"rank{context.rank}.log"
    before = log.stat().st_size
    for op in ("all_reduce", "broadcast", "barrier"):
        _issue(context, op)
    group = context.fresh_group()
    dist.all_reduce(torch.ones(3, device=context.device), group=group)
    printed = log.read_text(errors="replace")[before:]
    context.expect(not printed.strip(), f"printed: {printed.strip()[:300]}", Verdict.NONSTRICT)


@body
def with_detail(context: Context) -> None:
    """The checking wrapper of torch around the backend."""
    for op in ("all_reduce", "broadcast", "all_gather", "reduce_scatter_tensor", "barrier", "send_recv"):
        _issue(context, op)
    value = torch.full((5,), float(context.rank), device=context.device)
    dist.all_reduce(value)
    context.expect(bool((value == sum(range(context.size))).all()), "wrong sum under DETAIL", Verdict.WRONG_RESULT)
