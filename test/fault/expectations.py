"""What the survivors of a fault must report, and how long they took."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from harness.messages import Returned
from harness.rank import Raised, error_of
from harness.settings import OURS


@dataclass(frozen=True)
class Report:
    """What a survivor saw."""

    first: Raised  # the error of the op during which the fault happened
    later: Raised  # the error of the next op on the same group
    raised_at: float  # on the monotonic clock, which all processes share


def survive(call: Callable[[], Any], group: Any = None) -> Report:
    """Call until it raises, then try one more op on the group."""

    first = error_of(call)
    raised_at = time.monotonic()
    return Report(first, error_of(dist.all_reduce, torch.ones(1), group=group), raised_at)


def reports_of(outcomes: list[Any], survivors: list[int]) -> dict[int, Report]:
    for rank in survivors:
        assert isinstance(outcomes[rank], Returned), f"rank {rank}: {outcomes[rank]}"
    return {rank: outcomes[rank].value for rank in survivors}


def check_refused(error: Raised, op: str, *words: str) -> None:
    """An op on a group that has failed before is refused at once, and the reason is given again."""
    assert error.is_a("DistBackendError"), error
    if not OURS:
        return
    for pattern in (op, r'group "[^"]*"', *words):
        assert re.search(pattern, error.text), f"{pattern!r} is not in the message: {error.text}"


def check_names(error: Raised, op: str, culprit: int, *words: str) -> None:
    """The error says which op, which call of it, which group, and which global rank it is about."""
    assert error.is_a("DistBackendError"), error
    if not OURS:
        return
    for pattern in (rf"{op} #\d+", r'group "[^"]*"', rf"rank {culprit}\b", *words):
        assert re.search(pattern, error.text), f"{pattern!r} is not in the message: {error.text}"
