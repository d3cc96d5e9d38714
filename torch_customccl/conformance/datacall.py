"""Builds the guarded tensors of one call from the operation table, issues it, and checks every byte."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from . import oracle
from .buffers import GuardedTensor
from .context import Context
from .model import CheckFailedError, Dims, Verdict
from .modes import MODES
from .ops import OPS, P2P_OPS, REDUCED, Call, Op
from .tables import DTYPES, LAYOUTS, REDUCE_OPS, DType, Layout

Values = Callable[[int, int, int], torch.Tensor]
"""(rank, slot, numel) -> one block of values."""


class DataCall:
    """One operation with its tensors; ``round`` makes several calls of one case differ, ``dims`` are the case's."""

    def __init__(self, context: Context, group: Any, round: int = 0, dims: Dims | None = None) -> None:
        dims = context.dims if dims is None else dims
        self.op: Op = OPS[dims["op"]]
        self.dtype: DType = DTYPES[dims.get("dtype", "f32")]
        self.group = group
        self.rank = dist.get_rank(self.group)
        self.size = dist.get_world_size(self.group)
        self.root = {"first": 0, "last": self.size - 1, "middle": self.size // 2}[dims.get("root", "first")]
        self.reduce_op = dims.get("reduce_op", "sum")
        self._dims, self._device, self._round = dims, context.device, round
        self._layout: Layout = LAYOUTS[dims.get("layout", "contiguous")]
        self._block = self._layout.shape(int(dims.get("numel", 31)))
        self._numel = int(torch.Size(self._block).numel())
        self.inputs = self._make_inputs()
        self.outputs = [] if self.op.in_place else self._make_outputs()

    def _values(self, rank: int, slot: int) -> torch.Tensor:
        slot += 16 * self._round
        payload = self._dims.get("payload", "coded")
        if payload == "special":
            special = oracle.special_operands if self.op.reduces else oracle.special_floats
            return special(rank + slot, self._numel, self.dtype)
        if self.op.reduces:
            return oracle.reduce_inputs(rank, slot, self._numel, self.dtype, self.reduce_op, self.size)
        return oracle.transport_values(rank, slot, self._numel, self.dtype)

    def _guarded(self, name: str, shape: tuple[int, ...]) -> GuardedTensor:
        strided = self._dims.get("strided", "")
        plain = strided and not strided.endswith(name.split()[0] + "s")
        layout = LAYOUTS["contiguous"] if plain else self._layout
        return GuardedTensor(name, shape, layout, self.dtype, self.rank, self._device)

    def _joined_shape(self, blocks: int) -> tuple[int, ...]:
        return (blocks * self._block[0], *self._block[1:]) if self._block else (blocks,)

    def _make_inputs(self) -> list[GuardedTensor]:
        count = self.op.slots(self.rank, self.size, self.root)
        blocks = [self._values(self.rank, slot) for slot in range(count)]
        if self.op.join_inputs:
            return [self._guarded("input", self._joined_shape(count)).fill(torch.cat([b.reshape(-1) for b in blocks]))]
        return [self._guarded(f"input {slot}", self._block).fill(values) for slot, values in enumerate(blocks)]

    def _make_outputs(self) -> list[GuardedTensor]:
        count = len(self.op.sources(self.rank, self.size, self.root))
        if self.op.join_outputs:
            return [self._guarded("output", self._joined_shape(count))]
        return [self._guarded(f"output {slot}", self._block) for slot in range(count)]

    def issue(self, async_op: bool) -> Any:
        """Make the call; gives the handle."""
        reduce_op = REDUCE_OPS[self.reduce_op].make() if self.op.reduces else None
        return self.op.call(
            Call(
                [each.tensor for each in self.inputs],
                [each.tensor for each in self.outputs],
                self.rank,
                self.size,
                self.root,
                reduce_op,
                self.group,
                async_op,
            )
        )

    def release_inputs(self) -> None:
        """Forget the input tensors (not for in-place operations, whose input is the result)."""
        if not self.op.in_place:
            self.inputs = []

    def _expected(self, source: int, slot: int) -> torch.Tensor:
        if source != REDUCED:
            return self._values(source, slot)
        everyone = [self._values(rank, slot) for rank in range(self.size)]
        return oracle.reduce_expected(everyone, self.dtype, self.reduce_op)

    def check(self) -> None:
        """Outputs are as the oracle says; inputs, guards and gaps are as before."""
        expected = [self._expected(*source) for source in self.op.sources(self.rank, self.size, self.root)]
        targets = self.inputs if self.op.in_place else self.outputs
        if self.op.join_outputs and not self.op.in_place:
            expected = [torch.cat([block.reshape(-1) for block in expected])]
        if self.op.in_place and not expected:
            self._check_bystander(targets[0])
            return
        for target, values in zip(targets, expected, strict=True):
            arithmetic = self.op.reduces and self.dtype.kind == "float"
            target.check(_with_nans_of(target.tensor, values) if arithmetic else values)
        if not self.op.in_place:
            for each in self.inputs:
                each.check(None)

    def check_future(self, value: Any) -> None:
        """The value of the operation's future is this rank's result, in any number of tensors and lists of them."""
        targets = self.inputs if self.op.in_place else self.outputs
        if not self.op.sources(self.rank, self.size, self.root):
            return
        told, held = (
            torch.cat([torch.empty(0, dtype=self.dtype.torch), *(each.cpu().reshape(-1) for each in tensors)])
            for tensors in (_tensors_in(value), [each.tensor for each in targets])
        )
        if not torch.equal(told, held):
            text = f"the future's value is not the result: {told.numel()} elements for {held.numel()}"
            raise CheckFailedError(Verdict.WRONG_RESULT, text)

    def _check_bystander(self, target: GuardedTensor) -> None:
        target.check_around()
        try:
            target.check(None)
        except CheckFailedError as error:
            if self._dims.get("bystanders") == "checked":
                raise CheckFailedError(
                    Verdict.WRONG_SIDE_EFFECT, f"tensor of a rank that is not the root: {error}"
                ) from None


def _with_nans_of(found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """A NaN that arithmetic makes may have any sign and payload."""
    found = found.cpu().reshape(expected.shape)
    return torch.where(expected.isnan() & found.isnan(), found, expected)


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors_in(each)] if isinstance(value, (list, tuple)) else []


def run_data_calls(context: Context) -> None:
    """Issue the case's call (several at once for ``in_flight``) in its mode, in each of the rank's groups; check."""
    groups = context.groups(context.dims.get("group", "world"))
    if not groups:
        context.note(bystander=True)
    else:
        context.note(groups=[dist.get_process_group_ranks(group) for group in groups])
    errors: list[Exception] = []
    for group in groups:
        try:
            _run_in(group, context)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _run_in(group: Any, context: Context) -> None:
    flight = int(context.dims.get("in_flight", 1))
    mode = context.dims.get("mode", "sync")
    calls = [DataCall(context, group, round) for round in range(flight)]
    works: list[Any] = []

    def issue(async_op: bool) -> Any:
        work = calls[len(works)].issue(async_op)
        if flight > 1 or mode == "future":
            works.append(work)
        return work

    if flight > 1:
        for _ in calls:
            issue(True)
        for work in reversed(works):
            work.wait()
    else:
        context.release_inputs = calls[0].release_inputs
        MODES[mode](issue, context)
    for call in calls:
        _settled(call, context) if context.settle else call.check()
    if mode == "future" and calls[0].op.name not in P2P_OPS:
        calls[0].check_future(works[0].get_future().value())


def _settled(call: DataCall, context: Context) -> None:
    """Check again and again until the data is there or the op timeout is over."""
    limit = time.monotonic() + min(1.0, context.op_timeout_s / 2)
    while True:
        try:
            return call.check()
        except CheckFailedError as error:
            if time.monotonic() > limit:
                raise CheckFailedError(Verdict.ERROR, f"never completed once its handle was dropped: {error}") from None
        time.sleep(0.002)
