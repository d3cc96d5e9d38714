"""Planted bugs in how a call ends: too early, never, on one rank only, by a signal, or as if nothing were wrong."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch

from .peer_group import Finish, Flat
from .reference import ReferenceGroup
from .work import ReferenceWork


class EarlyWork(ReferenceWork):
    """Says it is done as soon as it is asked."""

    def is_completed(self) -> bool:
        return True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True


class CompletesEarly(ReferenceGroup):
    """Asynchronous all_reduce is done at once; the data comes later."""

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if not opts.asyncOp:
            return super().allreduce(tensors, opts)
        inputs = [tensor.clone() for tensor in tensors]
        timer = threading.Timer(0.2, lambda: self._late(tensors, inputs, opts))
        timer.daemon = True
        timer.start()
        return EarlyWork("all_reduce", 1.0, "")

    def _late(self, tensors: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any) -> None:
        self.allreduce_coalesced(inputs, opts, "all_reduce").wait()
        for target, value in zip(tensors, inputs, strict=True):
            target.copy_(value)


class IgnoresTimeout(ReferenceGroup):
    """Waits for ever."""

    def timeout_of(self, what: str) -> float:
        return 1e6


class RaisesOnOne(ReferenceGroup):
    """Rank 1 does its part of an all_reduce, then raises."""

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        work = super().allreduce(tensors, opts)
        if self.rank() == 1 and tensors[0].dtype == torch.int64:
            work.wait()
            raise RuntimeError("internal failure 7")
        return work


class HangsOnEmpty(ReferenceGroup):
    """A tensor without elements never completes."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        if what == "all_gather" and inputs and inputs[0].numel() == 0:
            threading.Event().wait()
        return super().exchange(what, meta, inputs, finish)


class Segfaults(ReferenceGroup):
    """Dies on bfloat16."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if tensors[0].dtype == torch.bfloat16:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().broadcast(tensors, opts)


class GivesNoWork(ReferenceGroup):
    """all_to_all_single gives None to who did not ask for a Work."""

    def all_to_all_single(self, *args: Any) -> Any:
        work = super().all_to_all_single(*args)
        if args[-1].asyncOp:
            return work
        work.wait()
        return None


class FalseCapability(ReferenceGroup):
    """Declares coalescing, which it does not have."""

    supports_coalescing = True

    def _start_coalescing(self, device: torch.device) -> None:
        raise RuntimeError("Backend mutant does not support startCoalescing")


class AcceptsMismatch(ReferenceGroup):
    """Reduces what it gets: a shorter input is padded."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        def padded(everyone: list[Flat]) -> Any:
            longest = [each.numel() for each in inputs]
            fitted = [
                [
                    torch.nn.functional.pad(flat, (0, max(0, n - flat.numel())))[:n]
                    for flat, n in zip(flats, longest, strict=False)
                ]
                for flats in everyone
            ]
            return finish(fitted)

        sizes_matter = what == "all_reduce"
        return super().exchange(what, () if sizes_matter else meta, inputs, padded if sizes_matter else finish)


class RefusesUnclearly(ReferenceGroup):
    """Has no all_to_all, and does not say so."""

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> ReferenceWork:
        raise ValueError("unexpected value 3")


class BreaksGroup(ReferenceGroup):
    """Has no all_to_all and says so, but does nothing any more afterwards."""

    broken = False

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> ReferenceWork:
        self.broken = True
        raise RuntimeError("Backend mutant does not support all_to_all_single")

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        if self.broken:
            raise RuntimeError("bad state")
        return super().exchange(what, meta, inputs, finish)


class SaysLittle(ReferenceGroup):
    """Refuses a list of the wrong length without a word about it."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Any:
        if len(outputs[0]) != self.size():
            raise ValueError("no")
        return super().allgather(outputs, inputs, opts)
