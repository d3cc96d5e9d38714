"""The mutants: the reference backend with one thing broken each, and the verdict the kit must give."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing import shared_memory
from typing import Any

import torch
import torch.distributed as dist

from ..model import Verdict
from .peer_group import Finish, Flat
from .reducing import op_name
from .reference import ReferenceGroup
from .work import ReferenceWork


@dataclass(frozen=True)
class Mutant:
    """A backend with a planted bug, the cases that look for it, and what they must say."""

    name: str
    group: Callable[..., Any]
    verdict: Verdict
    cases: tuple[str, ...]
    bug: str
    slow: bool = False


class _IgnoresStride(ReferenceGroup):
    """Writes results as if every tensor were contiguous."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        torch.as_strided(target, (flat.numel(),), (1,)).copy_(flat)


class _IgnoresOffset(ReferenceGroup):
    """Starts at the beginning of the storage, not of the view."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        guard = 256 // target.element_size()
        shift = guard if target.storage_offset() > guard else target.storage_offset()
        torch.as_strided(target, target.shape, target.stride(), shift).copy_(flat.reshape(target.shape))


class _WrongDivisor(ReferenceGroup):
    """AVG divides by the number of ranks of the world less one."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        total = super().reduced(flats, op)
        average = op_name(op).endswith("AVG")
        return (total * len(flats) / max(len(flats) - 1, 1)).to(total.dtype) if average and len(flats) > 2 else total


class _DropsLastChunk(ReferenceGroup):
    """Copies whole chunks of 4096 bytes and forgets the rest of large tensors."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        chunk = 4096 // flat.element_size()
        if flat.numel() > chunk and flat.numel() % chunk:
            flat = flat.clone()
            flat[flat.numel() // chunk * chunk :] = 0
        super().write(target, flat)


class _SwapsRanks(ReferenceGroup):
    """The first two ranks' parts change places in a gather."""

    def _fill(self, targets: Sequence[torch.Tensor], flats: Flat) -> Any:
        if len(flats) > 1 and flats[0].numel() == flats[1].numel():
            flats = [flats[1], flats[0], *flats[2:]]
        return super()._fill(targets, flats)


class _ChangesInput(ReferenceGroup):
    """Uses the input tensor as scratch space."""

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> ReferenceWork:
        work = super().all_gather_single(output, input, opts)
        work.wait()
        with torch.inference_mode():
            input.view(torch.uint8).zero_() if input.numel() and input.is_contiguous() and input.dim() else None
        return work


class _WritesPastEnd(ReferenceGroup):
    """Writes one byte too many."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        super().write(target, flat)
        raw = torch.empty(0, dtype=torch.uint8).set_(target.untyped_storage())
        end = sum((n - 1) * step for n, step in zip(target.shape, target.stride(), strict=True) if n) + 1
        at = (target.storage_offset() + end) * target.element_size()
        if target.numel() and at < raw.numel():
            raw[at] = 0


class _EarlyWork(ReferenceWork):
    """Says it is done as soon as it is asked."""

    def is_completed(self) -> bool:
        return True

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        return True


class _CompletesEarly(ReferenceGroup):
    """Asynchronous all_reduce is done at once; the data comes later."""

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if not opts.asyncOp:
            return super().allreduce(tensors, opts)
        inputs = [tensor.clone() for tensor in tensors]
        timer = threading.Timer(0.2, lambda: self._late(tensors, inputs, opts))
        timer.daemon = True
        timer.start()
        return _EarlyWork("all_reduce", 1.0, "")

    def _late(self, tensors: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any) -> None:
        self.allreduce_coalesced(inputs, opts, "all_reduce").wait()
        for target, value in zip(tensors, inputs, strict=True):
            target.copy_(value)


class _WrongTag(ReferenceGroup):
    """All messages between two ranks are one queue, whatever their tags."""

    def tag_sent(self, tag: int) -> int:
        return 0


class _IgnoresTimeout(ReferenceGroup):
    """Waits for ever."""

    def timeout_of(self, what: str) -> float:
        return 1e6


class _RaisesOnOne(ReferenceGroup):
    """Rank 1 does its part of an all_reduce, then raises."""

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        work = super().allreduce(tensors, opts)
        if self.rank() == 1 and tensors[0].dtype == torch.int64:
            work.wait()
            raise RuntimeError("internal failure 7")
        return work


class _HangsOnEmpty(ReferenceGroup):
    """A tensor without elements never completes."""

    def exchange(
        self, what: str, meta: tuple[Any, ...], inputs: Sequence[torch.Tensor], finish: Finish
    ) -> ReferenceWork:
        if what == "all_gather" and inputs and inputs[0].numel() == 0:
            threading.Event().wait()
        return super().exchange(what, meta, inputs, finish)


class _Segfaults(ReferenceGroup):
    """Dies on bfloat16."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if tensors[0].dtype == torch.bfloat16:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().broadcast(tensors, opts)


class _LeaksShm(ReferenceGroup):
    """Leaves a shared memory segment behind for each group."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        from multiprocessing import resource_tracker

        segment = shared_memory.SharedMemory(create=True, size=4096)
        resource_tracker.unregister(segment._name, "shared_memory")  # type: ignore[attr-defined]
        segment.close()


class _FalseCapability(ReferenceGroup):
    """Declares coalescing, which it does not have."""

    supports_coalescing = True

    def _start_coalescing(self, device: torch.device) -> None:
        raise RuntimeError("Backend mutant does not support startCoalescing")


class _LastBitDiffers(ReferenceGroup):
    """Each rank adds up in its own order, starting with itself."""

    def reduced(self, flats: Sequence[torch.Tensor], op: Any) -> torch.Tensor:
        start = self.rank() % len(flats)
        return super().reduced([*flats[start:], *flats[:start]], op)


class _GlobalRoot(ReferenceGroup):
    """Takes the group's root for a global rank: in a subgroup another rank's tensor is sent."""

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        if self.size() < dist.get_world_size():
            opts.rootRank = (opts.rootRank + 1) % self.size()
        return super().broadcast(tensors, opts)


class _NarrowCount:
    """Counts elements in 32 bits: gloo, with what is beyond 2^31 elements cut off."""

    def __new__(cls, store: dist.Store, rank: int, size: int, timeout: timedelta) -> Any:
        group = ReferenceGroup(dist.PrefixStore("mail", store), rank, size, timeout)
        inner: Any = dist.ProcessGroupGloo(store, rank, size, timeout)

        def broadcast(tensors: list[torch.Tensor], opts: Any) -> Any:
            numel = (tensors[0].numel() + (1 << 31)) % (1 << 32) - (1 << 31)
            return inner.broadcast([tensors[0].reshape(-1)[: max(numel, 0)]], opts)

        group.broadcast = broadcast  # type: ignore[method-assign]
        return group


class _AcceptsMismatch(ReferenceGroup):
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


class _ChangesBystander(ReferenceGroup):
    """reduce leaves the result on every rank."""

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        return self.allreduce_coalesced(tensors, opts, "reduce")


class _RefusesUnclearly(ReferenceGroup):
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


PLANTED: tuple[Mutant, ...] = (
    Mutant(
        "mutant_ignores_stride",
        _IgnoresStride,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/f32/stride2/*",),
        "writes every tensor as if it were contiguous",
    ),
    Mutant(
        "mutant_ignores_offset",
        _IgnoresOffset,
        Verdict.WRONG_RESULT,
        ("coll/broadcast/ws2/f32/offset/*",),
        "forgets the storage offset of a view",
    ),
    Mutant(
        "mutant_wrong_avg_divisor",
        _WrongDivisor,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws3/f32/avg/*",),
        "divides AVG by the wrong number",
    ),
    Mutant(
        "mutant_drops_last_chunk",
        _DropsLastChunk,
        Verdict.WRONG_RESULT,
        ("coll/all_reduce/ws2/f32/sum/contiguous/n4097/*",),
        "forgets what does not fill a chunk",
    ),
    Mutant(
        "mutant_swaps_ranks",
        _SwapsRanks,
        Verdict.WRONG_RESULT,
        ("coll/all_gather/ws2/f32/contiguous/n31/*",),
        "two ranks change places",
    ),
    Mutant(
        "mutant_changes_input",
        _ChangesInput,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/all_gather_into_tensor/ws2/f32/contiguous/n31/*",),
        "writes into the input",
    ),
    Mutant(
        "mutant_writes_past_end",
        _WritesPastEnd,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/all_reduce/ws2/f32/sum/contiguous/n31/*",),
        "writes one byte past the end",
    ),
    Mutant(
        "mutant_completes_early",
        _CompletesEarly,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/wait/ws2",),
        "completes before the data is there",
    ),
    Mutant("mutant_wrong_tag", _WrongTag, Verdict.WRONG_RESULT, ("p2p/tags_crossed/ws2",), "ignores tags"),
    Mutant(
        "mutant_ignores_timeout",
        _IgnoresTimeout,
        Verdict.HANG,
        ("fault/timeout/all_reduce/ws2",),
        "waits for ever",
        slow=True,
    ),
    Mutant(
        "mutant_raises_on_one",
        _RaisesOnOne,
        Verdict.ASYMMETRIC,
        ("coll/all_reduce/ws2/i64/sum/contiguous/n31/*",),
        "one rank raises, the others do not",
    ),
    Mutant(
        "mutant_hangs_on_empty",
        _HangsOnEmpty,
        Verdict.HANG,
        ("coll/all_gather/ws2/f32/empty/*",),
        "never completes a tensor without elements",
        slow=True,
    ),
    Mutant(
        "mutant_segfault",
        _Segfaults,
        Verdict.CRASH,
        ("coll/broadcast/ws2/bf16/contiguous/n31/*",),
        "dies of a segmentation fault",
    ),
    Mutant("mutant_leaks_shm", _LeaksShm, Verdict.LEAK, ("fault/leftovers/normal/ws2",), "leaves shared memory behind"),
    Mutant(
        "mutant_false_capability",
        _FalseCapability,
        Verdict.ACCEPTED_INVALID,
        ("honesty/coalescing/ws2",),
        "declares what it cannot do",
    ),
    Mutant(
        "mutant_last_bit_differs",
        _LastBitDiffers,
        Verdict.WRONG_RESULT,
        ("call/all_reduce/same_bits/ws3",),
        "ranks differ in the last bit",
    ),
    Mutant(
        "mutant_wrong_group_rank",
        _GlobalRoot,
        Verdict.WRONG_RESULT,
        ("group/broadcast/half/ws4",),
        "confuses group ranks and global ranks",
    ),
    Mutant(
        "mutant_32_bit_count",
        _NarrowCount,
        Verdict.WRONG_RESULT,
        ("large/broadcast/elements/ws2",),
        "counts elements in 32 bits",
        slow=True,
    ),
    Mutant(
        "mutant_accepts_mismatch",
        _AcceptsMismatch,
        Verdict.ACCEPTED_INVALID,
        ("misuse/all_reduce/size/ws2",),
        "reduces tensors of different sizes",
    ),
    Mutant(
        "mutant_changes_bystander",
        _ChangesBystander,
        Verdict.WRONG_SIDE_EFFECT,
        ("coll/reduce/ws2/f32/sum/contiguous/n31/sync/world/first/checked",),
        "reduce changes other ranks' tensors",
    ),
    Mutant(
        "mutant_refuses_unclearly",
        _RefusesUnclearly,
        Verdict.ERROR,
        ("coll/all_to_all_single/ws2/f32/contiguous/n31/*",),
        "raises without saying what is missing",
    ),
)
