"""Random programs: operations of many kinds and sizes in a row, in several groups, some of them left in flight.

What the other families try one by one. All ranks draw the same calls from the case's number; when a rank waits, and for
which of its works first, it draws for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch.distributed as dist

from ..context import Context
from ..datacall import DataCall
from ..model import Case, CheckFailedError, Dims, Tier
from ..ops import OPS, P2P_OPS
from ..refusal import is_refusal
from ..registry import body, family

_GROUPINGS = ("world", "all", "upper", "odd_even")
_CALLS = 60
_IN_FLIGHT = 8


@family
def generate() -> Iterator[Case]:
    """A few programs for each number of ranks."""
    for size in (2, 3, 5):
        for number in range(4):
            tier = Tier.SMOKE if (size, number) == (3, 0) else Tier.FULL if size > 4 else Tier.STANDARD
            dims = {"op": "all_reduce", "kind": "random_program", "number": number}
            yield Case(f"program/{number}/ws{size}", "programs", "WK-07", "random_program", size, dims, tier)


@dataclass(frozen=True)
class _Drawn:
    grouping: str
    dims: Dims
    async_op: bool

    def __str__(self) -> str:
        how = ", async_op" if self.async_op else ""
        return "{op} of {numel} x {dtype}, root: {root}, group: ".format(**self.dims) + self.grouping + how


def _draw(program: Random, ops: list[str]) -> _Drawn:
    dims = {
        "op": program.choice(ops),
        "dtype": program.choice(("f32", "f64", "i32", "i64")),
        "numel": program.choice((1, 7, 31, 1000, 5003, 70_001)),
        "root": program.choice(("first", "middle", "last")),
    }
    return _Drawn(program.choice(_GROUPINGS), dims, program.random() < 0.6)


def _offered(context: Context) -> list[str]:
    """The operations that the backend has. Whether it is right to lack one is not the question here; lacking all is."""
    ops: list[str] = []
    refusal: Exception | None = None
    for name, op in OPS.items():
        try:
            DataCall(context, dist.group.WORLD, dims={"op": name}).issue(async_op=False)
        except Exception as error:
            if not is_refusal(f"{type(error).__name__}: {error}", (name, *op.words)):
                raise
            refusal = error
        else:
            ops.append(name)
    if refusal and not ops:
        raise refusal
    return ops


@dataclass(frozen=True)
class _Issued:
    what: str
    call: DataCall
    work: Any

    def check(self, when: str) -> None:
        try:
            self.call.check()
        except CheckFailedError as error:
            raise CheckFailedError(error.verdict, f"{self.what}, {when}: {error}") from None


class _Flight:
    """The calls whose works nobody has waited for, and those that are over."""

    def __init__(self, order: Random) -> None:
        self._order = order
        self._open: list[_Issued] = []
        self._over: list[_Issued] = []

    def __len__(self) -> int:
        return len(self._open)

    def add(self, what: str, call: DataCall, async_op: bool) -> None:
        issued = _Issued(what, call, call.issue(async_op))
        if async_op:
            self._open.append(issued)
        else:
            self._end(issued)

    def end_one(self) -> None:
        issued = self._open.pop(self._order.randrange(len(self._open)))
        issued.work.wait()
        self._end(issued)

    def _end(self, issued: _Issued) -> None:
        issued.check("when it was over")
        self._over.append(issued)

    def check_again(self) -> None:
        """Whatever came later has changed nothing of what was over."""
        for issued in self._over:
            issued.check("at the end, but not when it was over")


@body
def random_program(context: Context) -> None:
    """Data is checked when an operation is over, and again when all are."""
    groups = {name: context.groups(name) for name in _GROUPINGS}
    ops = _offered(context)
    context.note(ops=ops)
    program, order = Random(int(context.dims["number"])), Random(f"{context.case.id} {context.rank}")
    flight = _Flight(order)
    for round in range(_CALLS):
        drawn = _draw(program, ops)
        for group in groups[drawn.grouping]:
            if drawn.dims["op"] not in P2P_OPS or dist.get_world_size(group) > 1:
                call = DataCall(context, group, round, drawn.dims)
                flight.add(f"call {round} ({drawn})", call, drawn.async_op)
        while flight and (len(flight) > _IN_FLIGHT or order.random() < 0.4):
            flight.end_one()
    while flight:
        flight.end_one()
    flight.check_again()
