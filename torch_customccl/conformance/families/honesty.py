"""Capabilities that the backend declares, tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..model import Case, CheckFailedError, Tier, Verdict
from ..refusal import is_refusal
from ..registry import body, family


def _coalescing(context: Context, backend: Any) -> None:
    device = torch.device(context.device)
    value = torch.ones(3, device=device)
    backend._start_coalescing(*([device] if not _is_backend(backend) else []))
    work = dist.all_reduce(value, async_op=True)
    ended = backend._end_coalescing(*([device] if not _is_backend(backend) else []))
    (ended or work).wait()
    context.expect(bool((value == context.size).all()), "wrong sum inside coalescing", Verdict.WRONG_RESULT)


def _splitting(context: Context, backend: Any) -> None:
    if isinstance(backend, dist.ProcessGroup) and type(backend).split_group is dist.ProcessGroup.split_group:
        raise NotImplementedError(f"{type(backend).__name__} has no split_group of its own")
    options = getattr(backend, "options", None)
    arguments: dict[str, Any] = {"timeout": timedelta(seconds=context.op_timeout_s)}
    arguments |= {"opts": options} if options is not None else {}
    group: Any = dist.group.WORLD
    parts = 1 if context.size == 2 else 2
    part = context.rank % parts
    ranks = list(range(part, context.size, parts))
    child = group.split_group(ranks, group_name=f"child {part}", group_desc="child", **arguments)
    place, wanted = (child.rank(), child.size()), (ranks.index(context.rank), len(ranks))
    context.expect(place == wanted, f"(rank, size) {place} in a group of ranks {ranks}", Verdict.WRONG_RESULT)
    value = torch.full((3,), context.rank + 1.0, device=context.device)
    child.allreduce([value], dist.AllreduceOptions()).wait()
    total = sum(rank + 1.0 for rank in ranks)
    context.expect(bool((value == total).all()), "wrong sum in a split group", Verdict.WRONG_RESULT)


def _time_estimate(context: Context, backend: Any) -> None:
    backend._start_time_estimate()
    backend._end_time_estimate()


def _tensor_alloc(context: Context, backend: Any) -> None:
    made = backend.allocate_tensor(10, dtype=torch.float32, device=torch.device(context.device))
    context.expect(made.numel() >= 10, "allocate_tensor gave too few elements", Verdict.WRONG_RESULT)


def _shrinking(context: Context, backend: Any) -> None:
    """The last rank is left out and does not call."""
    if context.rank < context.size - 1:
        child = backend.shrink([context.size - 1], 0, None)
        context.expect(child is not None and child.size() == context.size - 1, "shrink gave no smaller group")


_TRIALS: dict[str, tuple[str, Callable[[Context, Any], None]]] = {
    "coalescing": ("supports_coalescing", _coalescing),
    "splitting": ("supports_splitting", _splitting),
    "time_estimate": ("supports_time_estimate", _time_estimate),
    "tensor_alloc": ("supports_tensor_alloc", _tensor_alloc),
    "shrinking": ("supports_shrinking", _shrinking),
}


@family
def generate() -> Iterator[Case]:
    """Each capability: declared and there, or denied."""
    for name in _TRIALS:
        words = f"{name} {name.replace('_', '')} startCoalescing"
        for size in (2, 4) if name == "splitting" else (2,):
            yield Case(
                f"honesty/{name}/ws{size}",
                "honesty",
                "HO-01",
                "declared",
                size,
                {
                    "op": "capability",
                    "kind": name,
                    "capability": name,
                    "words": words,
                },
                Tier.SMOKE if name == "coalescing" else Tier.STANDARD,
                "fresh",
            )
        yield Case(
            f"honesty/{name}/denied/ws2",
            "honesty",
            "HO-02",
            "denied",
            2,
            {"op": "capability", "kind": f"{name}_denied", "capability": name},
            isolation="fresh",
        )


def _is_backend(thing: Any) -> bool:
    return not isinstance(thing, dist.ProcessGroup)


def _backend(context: Context) -> Any:
    group: Any = dist.group.WORLD
    try:
        return group._get_backend(torch.device(context.device))
    except RuntimeError:
        return group


def _says(context: Context, backend: Any) -> bool:
    """The flag that the backend shows for the case's capability."""
    attribute, _ = _TRIALS[context.dims["capability"]]
    flag = getattr(backend, attribute, False)
    says = bool(flag(torch.device(context.device)) if callable(flag) else flag)
    context.note(declared=says)
    return says


@body
def declared(context: Context) -> None:
    """A yes is tried and must hold; a no ends as unsupported, which is fine."""
    context.require_support("all_reduce")
    name, backend = context.dims["capability"], _backend(context)
    attribute, trial = _TRIALS[name]
    if not _says(context, backend):
        raise RuntimeError(f"Backend {context.backend} does not support {name} and says so")
    try:
        trial(context, backend)
    except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
        verdict = Verdict.ACCEPTED_INVALID if is_refusal(str(error), strict=True) else Verdict.ERROR
        if isinstance(error, (AttributeError, NotImplementedError)):
            verdict = Verdict.ACCEPTED_INVALID
        raise CheckFailedError(verdict, f"{attribute} is true, but {type(error).__name__}: {error}") from None


@body
def denied(context: Context) -> None:
    """A no is tried too: if the thing works all the same, on every rank, the flag is wrong."""
    context.require_support("all_reduce")
    backend = _backend(context)
    attribute, trial = _TRIALS[context.dims["capability"]]
    if _says(context, backend):
        return
    works = b"1"
    try:
        trial(context, backend)
    except Exception as error:
        context.note(refused_with=f"{type(error).__name__}: {error}"[:300])
        works = b"0"
    everywhere = set(context.exchange("works", works)) == {b"1"}
    context.expect(not everywhere, f"{attribute} is false, but it works", Verdict.NONSTRICT)
