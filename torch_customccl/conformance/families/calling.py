"""How an operation is issued and waited for: every operation in every calling mode."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..context import Context
from ..datacall import run_data_calls
from ..model import Case, CheckFailedError, Tier, Verdict
from ..modes import MODES
from ..ops import OPS, P2P_OPS
from ..registry import body, family
from ..tables import REDUCE_OPS

_CLAUSE = {
    "wait": "WK-01",
    "wait_twice": "WK-04",
    "wait_timeout": "WK-04",
    "wait_thread": "WK-04",
    "poll": "WK-02",
    "future": "WK-03",
    "future_then": "WK-03",
    "freed_input": "WK-05",
    "dropped": "WK-06",
    "inference": "WK-09",
    "in_flight": "WK-07",
}
_P2P_CLAUSE = {"poll": "PP-04", "future": "PP-06", "future_then": "PP-06"}
_SMOKE_OPS = ("all_reduce", "broadcast", "all_gather", "send_recv")
_NUMEL = 5003


def _mode_cases() -> Iterator[Case]:
    for op in OPS.values():
        for mode in (*MODES, "in_flight"):
            if mode == "sync" or (op.name.endswith("_coalesced") and mode not in ("wait", "wait_twice")):
                continue
            clause = _P2P_CLAUSE.get(mode, _CLAUSE[mode]) if op.name in P2P_OPS else _CLAUSE[mode]
            for size in (2, 3, 5):
                smoke = size == 2 and op.name in _SMOKE_OPS and mode in ("wait", "poll", "future", "dropped")
                dims: dict[str, Any] = {"op": op.name, "dtype": "f32", "numel": _NUMEL, "mode": mode, "kind": mode}
                if mode.startswith("future"):
                    dims["words"] = "future"
                if mode == "in_flight":
                    dims |= {"in_flight": 6, "mode": "wait"}
                yield Case(
                    f"call/{op.name}/{mode}/ws{size}",
                    "calling",
                    clause,
                    "call_mode",
                    size,
                    dims,
                    Tier.SMOKE if smoke else Tier.FULL if size > 4 else Tier.STANDARD,
                )


def _float_cases() -> Iterator[Case]:
    """Other dtypes and reduce ops than those of the cases of all_reduce."""
    rows = [(name, "dtype", dtype) for name in ("same_bits", "float_error") for dtype in ("f16", "bf16", "f64")]
    rows += [("same_bits", "reduce_op", op) for op in ("avg", "product", "min", "max", "premul_sum")]
    for name, dimension, value in rows:
        clause = "AR-02" if name == "same_bits" else "AR-04"
        dims = {"op": "all_reduce", "kind": name, dimension: value}
        yield Case(f"call/all_reduce/{name}/{value}/ws3", "calling", clause, name, 3, dims)


@family
def generate() -> Iterator[Case]:
    """Operation x mode, then the cases that need a body of their own."""
    yield from _mode_cases()
    for name, clause in (
        ("requires_grad_input", "WK-09"),
        ("many_async", "WK-07"),
        ("same_bits", "AR-02"),
        ("rerun_bits", "AR-03"),
        ("float_error", "AR-04"),
    ):
        for size in (2, 3, 5, 8):
            tier = Tier.FULL if size > 4 else Tier.SMOKE if name == "same_bits" else Tier.STANDARD
            yield Case(
                f"call/all_reduce/{name}/ws{size}",
                "calling",
                clause,
                name,
                size,
                {"op": "all_reduce", "kind": name},
                tier,
            )
    yield from _float_cases()
    for op in ("all_reduce", "send_recv", "barrier"):
        yield Case(
            f"call/{op}/wait_times_out/ws2",
            "calling",
            "WK-08",
            "wait_times_out",
            2,
            {"op": op, "kind": "wait_times_out"},
            isolation="fresh",
            setup={"cost_s": 4.0, "op_timeout_s": 6.0},
        )
    yield Case(
        "call/barrier/threads/ws2",
        "calling",
        "GR-03",
        "two_groups_two_threads",
        2,
        {"op": "all_reduce", "kind": "two_groups"},
        isolation="fresh",
    )


@body
def call_mode(context: Context) -> None:
    """The data check in the case's calling mode."""
    run_data_calls(context)


@body
def requires_grad_input(context: Context) -> None:
    """An input that requires a gradient is read like any other, and stays a leaf."""
    inputs = torch.full((9,), float(context.rank + 1), device=context.device, requires_grad=True)
    outputs = [torch.zeros(9, device=context.device) for _ in range(context.size)]
    dist.all_gather(outputs, inputs)
    good = all(bool((each == peer + 1).all()) for peer, each in enumerate(outputs))
    context.expect(good, "wrong gathered values", Verdict.WRONG_RESULT)
    context.expect(
        inputs.is_leaf and inputs.requires_grad, "the input lost its gradient flag", Verdict.WRONG_SIDE_EFFECT
    )


@body
def many_async(context: Context) -> None:
    """64 operations of different kinds in flight at once, waited for in a shuffled order."""
    generator = torch.Generator().manual_seed(11)
    tensors = [
        torch.full((17 * (index + 1),), float(context.rank + index), device=context.device) for index in range(64)
    ]
    works = [
        dist.all_reduce(tensor, async_op=True)
        if index % 2
        else dist.broadcast(tensor, src=index % context.size, async_op=True)
        for index, tensor in enumerate(tensors)
    ]
    for index in torch.randperm(64, generator=generator).tolist():
        works[index].wait()
    for index, tensor in enumerate(tensors):
        value = sum(rank + index for rank in range(context.size)) if index % 2 else index % context.size + index
        context.expect(
            bool((tensor == value).all()),
            f"operation {index} of 64 gave {tensor[0].item()}, not {value}",
            Verdict.WRONG_RESULT,
        )


def _random(rank: int, numel: int, dtype: torch.dtype, device: str, reach: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 + rank)
    scales = torch.logspace(-reach, reach, numel).double()
    values = torch.randn(numel, generator=generator, dtype=torch.float64) * scales
    return values.to(dtype).to(device)


_DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64}


@body
def same_bits(context: Context) -> None:
    """Random floats and both zeros: each rank's result goes to the parent's store; it must be the same everywhere."""
    dtype = _DTYPE[context.dims.get("dtype", "f32")]
    reduce_op: Any = REDUCE_OPS[context.dims.get("reduce_op", "sum")].make()
    for numel in (3, 1000, 40_009, 300_007):
        value = _random(context.rank, numel, dtype, context.device)
        value[::7] *= 0
        dist.all_reduce(value, reduce_op)
        raw = value.cpu().view(torch.uint8).numpy().tobytes()
        for peer, theirs in enumerate(context.exchange(f"bits{numel}", raw)):
            context.expect(
                theirs == raw,
                f"{numel} elements: ranks {context.rank} and {peer} hold different bits",
                Verdict.WRONG_RESULT,
            )


@body
def rerun_bits(context: Context) -> None:
    """The same all_reduce five times in one process."""
    first = _random(context.rank, 20_011, torch.float32, context.device)
    dist.all_reduce(first)
    for again in range(4):
        value = _random(context.rank, 20_011, torch.float32, context.device)
        dist.all_reduce(value)
        context.expect(torch.equal(value, first), f"repetition {again + 2} gave other bits", Verdict.WRONG_RESULT)


@body
def float_error(context: Context) -> None:
    """Random floats stay within n x eps x sum of magnitudes of the float64 result."""
    numel, dtype = 99_991, _DTYPE[context.dims.get("dtype", "f32")]
    reach = 2 if dtype == torch.float16 else 30
    everyone = [_random(rank, numel, dtype, "cpu", reach).double() for rank in range(context.size)]
    value = _random(context.rank, numel, dtype, context.device, reach)
    dist.all_reduce(value)
    bound = context.size * torch.finfo(dtype).eps * torch.stack(everyone).abs().sum(0)
    off = (value.cpu().double() - torch.stack(everyone).sum(0)).abs() > bound
    context.expect(
        not bool(off.any()), f"{int(off.sum())} of {numel} sums are off by more than the bound", Verdict.WRONG_RESULT
    )


@body
def wait_times_out(context: Context) -> None:
    """Rank 0 waits for something rank 1 never does; the wait's own timeout of half a second counts.

    One that ends when the group's timeout does, four times the limit, has not heeded its argument.
    """
    op = context.op
    value = torch.ones(5, device=context.device)
    context.require_support(op)
    if context.rank == 0:
        posts: dict[str, Any] = {
            "all_reduce": lambda: dist.all_reduce(value, async_op=True),
            "send_recv": lambda: dist.irecv(value, src=1),
            "barrier": lambda: dist.barrier(async_op=True),
        }
        work = posts[op]()
        context.refused(
            lambda: work.wait(timedelta(seconds=0.5)),
            "wait(0.5 s) for a rank that does not come",
            limit_s=context.op_timeout_s / 4,
            accepted=Verdict.WRONG_RESULT,
        )
    context.meet("waited")


@body
def two_groups_two_threads(context: Context) -> None:
    """Two threads, each with its own group, issued in opposite order on the two ranks."""
    groups = [context.fresh_group(), context.fresh_group()]
    order = groups if context.rank == 0 else groups[::-1]
    errors: list[Exception] = []

    def run(group: Any) -> None:
        try:
            for _ in range(10):
                value = torch.ones(100, device=context.device)
                dist.all_reduce(value, group=group)
                if not bool((value == context.size).all()):
                    raise CheckFailedError(Verdict.WRONG_RESULT, "wrong sum with two groups in two threads")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(group,), daemon=True) for group in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
