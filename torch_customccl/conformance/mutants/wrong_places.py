"""Planted bugs that touch what is none of the operation's: inputs, neighbours, bystanders, shared memory."""

from __future__ import annotations

import uuid
from datetime import timedelta
from multiprocessing import resource_tracker, shared_memory
from typing import Any

import torch
import torch.distributed as dist

from .reference import ReferenceGroup
from .work import ReferenceWork

LEAK_PREFIX = "conformance_kit_leak_"


class ChangesInput(ReferenceGroup):
    """Uses the input tensor as scratch space."""

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> ReferenceWork:
        work = super().all_gather_single(output, input, opts)
        work.wait()
        with torch.inference_mode():
            input.view(torch.uint8).zero_() if input.numel() and input.is_contiguous() and input.dim() else None
        return work


class WritesPastEnd(ReferenceGroup):
    """Writes one byte too many."""

    def write(self, target: torch.Tensor, flat: torch.Tensor) -> None:
        super().write(target, flat)
        raw = torch.empty(0, dtype=torch.uint8).set_(target.untyped_storage())
        end = sum((n - 1) * step for n, step in zip(target.shape, target.stride(), strict=True) if n) + 1
        at = (target.storage_offset() + end) * target.element_size()
        if target.numel() and at < raw.numel():
            raw[at] = 0


class ChangesBystander(ReferenceGroup):
    """reduce leaves the result on every rank."""

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        return self.allreduce_coalesced(tensors, opts, "reduce")


class ChangesBeyondBystander(ReferenceGroup):
    """reduce clears 64 bytes after the tensor of a rank that is not the root."""

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> ReferenceWork:
        work = super().reduce(tensors, opts)
        if self.rank() != opts.rootRank:
            work.wait()
            raw = torch.empty(0, dtype=torch.uint8).set_(tensors[0].untyped_storage())
            end = (tensors[0].storage_offset() + tensors[0].numel()) * tensors[0].element_size()
            raw[end : end + 64] = 0
        return work


class LeaksShm(ReferenceGroup):
    """Leaves a shared memory segment behind for each group."""

    def __init__(self, store: dist.Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        segment = shared_memory.SharedMemory(f"{LEAK_PREFIX}{uuid.uuid4().hex}", create=True, size=4096)
        resource_tracker.unregister(segment._name, "shared_memory")  # type: ignore[attr-defined]
        segment.close()
