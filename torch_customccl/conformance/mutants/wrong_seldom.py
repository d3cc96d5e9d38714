"""Planted bugs in what is seldom looked at: fractions, a failure's future, a second tensor, what comes later."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .peer_group import Finish
from .reducing import combine
from .reference import ReferenceGroup
from .work import ReferenceWork
from .wrong_endings import EarlyWork

_RED: Any = dist.ReduceOp.RedOpType


class TruncatesAverage(ReferenceGroup):
    """An average of floats is a whole number."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        total = super().reduced(flats, op)
        return total.trunc() if op == _RED.AVG and total.is_floating_point() else total


class WholeFactor(ReferenceGroup):
    """The factor of PREMUL_SUM is an integer."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        if op == _RED.PREMUL_SUM:
            return combine(flats, _RED.SUM) * int(op.__getstate__()[1])
        return super().reduced(flats, op)


class FutureNeverFails(ReferenceGroup):
    """The future of an operation completes only if that succeeds."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        work = super().exchange(what, meta, inputs, finish)
        mute: Any = torch.futures.Future()
        work.get_future().then(lambda done: mute.set_result(done.value()))
        work.get_future = lambda: mute  # type: ignore[method-assign]
        return work


class PatientWhenCoalesced(ReferenceGroup):
    """Only coalesced operations have no time limit."""

    def timeout_of(self, what: str) -> float:
        return 1e6 if "coalesced" in what else super().timeout_of(what)


class AbortsCollectivesOnly(ReferenceGroup):
    """abort() ends no receive."""

    def abort(self) -> None:
        self._mail.fail(ConnectionError("the group was aborted"), "collective")


class KeepsGathered(ReferenceGroup):
    """The outputs of each all_gather are kept for ever."""

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> ReferenceWork:
        self._kept = [*getattr(self, "_kept", ()), outputs]
        return super().allgather(outputs, inputs, opts)


class KeepsAMebibyte(ReferenceGroup):
    """Each operation leaves 1 MiB in use."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        self._kept = [*getattr(self, "_kept", ()), torch.ones(1 << 20, dtype=torch.uint8)]
        return super().exchange(what, meta, inputs, finish)


class _DoneAtOnce(ReferenceWork):
    def is_completed(self) -> bool:
        return True


class BarrierLooksDone(ReferenceGroup):
    """A barrier says at once that it is completed; wait() is right."""

    def barrier(self, opts: Any = None) -> ReferenceWork:
        work = super().barrier(opts)
        work.__class__ = _DoneAtOnce
        return work


class HastyBarrierOfThree(ReferenceGroup):
    """An asynchronous barrier of three ranks waits for nobody."""

    def barrier(self, opts: Any = None) -> ReferenceWork:
        work = super().barrier(opts)
        if opts.asyncOp and self.size() > 2:
            work.__class__ = EarlyWork
        return work


class CutsBytes(ReferenceGroup):
    """A broadcast of bytes ends after 1 MiB."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        cut = tensors[0].dtype == torch.uint8 and tensors[0].numel() > 1 << 20
        return super().broadcast([tensors[0][: 1 << 20]] if cut else tensors, opts)


class SplitsBackwards(ReferenceGroup):
    """A group split off numbers its ranks from the last to the first."""

    supports_splitting = True

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        self._store, self._limit = store, timeout

    def split_group(self, ranks: list[int], *_: Any, **__: Any) -> ReferenceGroup:
        store = dist.PrefixStore("child", self._store)
        return ReferenceGroup(store, ranks[::-1].index(self.rank()), len(ranks), self._limit)


class SplitsOffAll(SplitsBackwards):
    """A group split off has all ranks, whichever were asked for."""

    def split_group(self, ranks: list[int], *_: Any, **__: Any) -> ReferenceGroup:
        return ReferenceGroup(dist.PrefixStore("child", self._store), self.rank(), self.size(), self._limit)


class PatientMeeting(ReferenceGroup):
    """Only making a group has no time limit."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timedelta(days=1))
        self._timeout_s = timeout.total_seconds()


class PatientSender(ReferenceGroup):
    """Only sending more than 1 MiB has no time limit: it waits until that is received."""

    def send(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> ReferenceWork:
        work = super().send(tensors, peer, tag)
        if tensors[0].nbytes > 1 << 20:
            work = ReferenceWork("send", 1e6, self._who())
            self._mail.expect(peer, ("taken", tag), lambda *_: work.finish(tensors), work.fail)
        return work

    def recv(self, tensors: list[torch.Tensor], peer: int, tag: int = 0) -> ReferenceWork:
        work = super().recv(tensors, peer, tag)
        if tensors[0].nbytes > 1 << 20:
            work.get_future().then(lambda _: self._mail.send(work.source_rank(), ("taken", tag), b""))
        return work


class DestroyWaitsForAll(ReferenceGroup):
    """destroy waits until every collective is over, whoever still has to call it."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        self._last = super().exchange(what, meta, inputs, finish)
        return self._last

    def shutdown(self) -> None:
        while not self._last.is_completed():
            time.sleep(0.01)
        super().shutdown()


class WritesAgain(ReferenceGroup):
    """Each result is written once more when the next operation begins."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        again = getattr(self, "_again", None)
        if again is not None:
            again()

        def finish_and_note(everyone: Any) -> Any:
            self._again = lambda: finish(everyone)
            return finish(everyone)

        return super().exchange(what, meta, inputs, finish_and_note)
