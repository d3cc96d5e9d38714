"""Tensors that the caller overwrites once a call or its wait is over."""

from __future__ import annotations

from collections.abc import Iterator

import torch.distributed as dist

from ..context import Context
from ..datacall import DataCall
from ..model import Case, Verdict
from ..registry import body, family
from .p2p import held_until

_NUMEL = 5003


@family
def generate() -> Iterator[Case]:
    """Inputs of ranks that only give, then results."""
    for op, clause in (("broadcast", "BC-01"), ("scatter", "SC-01"), ("gather", "GA-01"), ("reduce", "RD-01")):
        dims = {"op": op, "numel": _NUMEL, "kind": "input_overwritten"}
        yield Case(f"call/{op}/input_overwritten/ws2", "overwriting", clause, "input_overwritten", 2, dims)
    for op in ("all_reduce", "broadcast", "all_gather", "all_to_all_single", "send_recv"):
        dims = {"op": op, "numel": _NUMEL, "kind": "result_overwritten"}
        yield Case(f"call/{op}/result_overwritten/ws2", "overwriting", "WK-01", "result_overwritten", 2, dims)


@body
def input_overwritten(context: Context) -> None:
    """The rank that only gives overwrites its tensors once the call or its wait is over; the other comes after that."""
    giver = 0 if context.op in ("broadcast", "scatter") else 1
    for round in range(2):
        call = DataCall(context, dist.group.WORLD, round)
        if context.rank != giver:
            held_until(context, f"overwritten/{round}")
        work = call.issue(async_op=round == 1)
        if work is not None:
            work.wait()
        if context.rank != giver:
            call.check()
            continue
        for given in call.inputs:
            given.tensor.zero_()
        context.store.set(f"overwritten/{round}", b"1")


@body
def result_overwritten(context: Context) -> None:
    """What the caller puts where a result was stays there, whatever it calls next."""
    for async_op in (False, True):
        first, second = (DataCall(context, dist.group.WORLD, round) for round in range(2))
        mine = [each.tensor for each in first.outputs or first.inputs]
        for call in (first, second):
            work = call.issue(async_op)
            if async_op:
                work.wait()
            if call is first:
                call.check()
                for tensor in mine:
                    tensor.fill_(7)
        second.check()
        kept = all(bool((tensor == 7).all()) for tensor in mine)
        context.expect(kept, "a result was written once more, over what the caller had put there", Verdict.WRONG_RESULT)
