"""Planted bugs of time: a buffer is read too late, an argument is checked too late, a time limit is not heeded."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .peer_group import refuse
from .reference import ReferenceGroup
from .work import ReferenceWork
from .wrong_endings import EarlyWork

_LATER_S = 0.05


class SendsLater(ReferenceGroup):
    """send and broadcast are done at once; their tensor is read a little later, one after the other."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self._desk = ThreadPoolExecutor(1)

    def _later(self, call: Callable[[], Any]) -> ReferenceWork:
        def take_up() -> None:
            time.sleep(_LATER_S)
            call()

        self._desk.submit(take_up)
        return EarlyWork("later", 1.0, "")

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> ReferenceWork:
        give = super().send
        return self._later(lambda: give(tensors, peer, tag))

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        give = super().broadcast
        if self.rank() != opts.rootRank:
            return give(tensors, opts)
        return self._later(lambda: give(tensors, opts))


class TouchesWhatIsOver(ReferenceGroup):
    """A gather clears the tensor of the broadcast before it, which is over."""

    _last: torch.Tensor | None = None

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        work = super().broadcast(tensors, opts)
        self._last = tensors[0]
        return work

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> ReferenceWork:
        work = super().gather(outputs, inputs, opts)
        if self._last is not None:
            self._last.zero_()
        return work


class ChecksLate(ReferenceGroup):
    """Looks at the length of the list only once all ranks have come."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        if len(outputs[0]) != self.size():
            self.exchange("hello", (), [], lambda everyone: []).wait()
        return super().allgather(outputs, inputs, opts)


class _PatientWork(ReferenceWork):
    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return super().wait()


class IgnoresWaitTimeout(ReferenceGroup):
    """wait(timeout) of a receive waits as long as the group's timeout."""

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> ReferenceWork:
        work = super().recv(tensors, peer, tag)
        work.__class__ = _PatientWork
        return work


class EmptyFuture(ReferenceGroup):
    """The future of an all_gather completes with nothing."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        work = super().allgather(outputs, inputs, opts)
        empty = work.get_future().then(lambda done: done.value() and [])
        work.get_future = lambda: empty  # type: ignore[method-assign]
        return work


class NoSubgroupBarrier(ReferenceGroup):
    """A barrier waits for nobody in a group that is not the world."""

    def barrier(self, opts: Any = None) -> ReferenceWork:
        return super().barrier(opts) if self.size() == dist.get_world_size() else EarlyWork("barrier", 1.0, "")


class ShortTags(ReferenceGroup):
    """Of a tag 16 bits are sent."""

    def tag_sent(self, tag: int) -> int:
        return tag % 65_536


class WrongSender(ReferenceGroup):
    """In a group that is not the world, a receive from any rank names the next one."""

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> ReferenceWork:
        work = super().recv_anysource(tensors, tag)
        if self.size() < dist.get_world_size():
            work._source_rank = lambda: (work._source + 1) % self.size()  # type: ignore[method-assign]
            work.source_rank = work._source_rank  # type: ignore[method-assign]
        return work


class UnevenOf4Bytes(ReferenceGroup):
    """Uneven splits of elements that are not 4 bytes long are forgotten."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        super().write(target, flat.new_zeros(flat.shape) if self._uneven and flat.element_size() != 4 else flat)

    _uneven = False

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> ReferenceWork:
        refuse(len(output_splits) not in (0, self.size()), "all_to_all_single: splits of the wrong length")
        self._uneven = len(set(output_splits)) > 1
        return super().all_to_all_single(output, input, output_splits, input_splits, opts)
