"""What Groups refuse before anything is sent."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any

import torch.distributed as dist

SHORTEST = timedelta(milliseconds=1)
LONGEST = timedelta(days=36500)  # a hundred years, which every clock below can count
_NAME_BYTES = 1000  # names are parts of keys, and at 8 KiB a TCPStore closes the connection


def checked_timeout(timeout: Any, of: str = "an operation") -> timedelta:
    """The timeout. TypeError if it is none."""
    if not isinstance(timeout, timedelta):
        raise TypeError(f"customccl: the timeout of {of} must be a datetime.timedelta, not {timeout!r}")
    return timeout


def checked_store(store: Any, or_what: str = "") -> dist.Store:
    """The store. TypeError if it is none. or_what: what else would have done."""
    if not isinstance(store, dist.Store):
        raise TypeError(f"customccl: a store{or_what} is needed, not {type(store).__name__}")
    return store


def clamped(timeout: timedelta, of: str = "an operation") -> timedelta:
    """The timeout, between SHORTEST and LONGEST. TypeError if it is none."""
    return min(max(checked_timeout(timeout, of), SHORTEST), LONGEST)


def limited(timeout: timedelta, of: str) -> timedelta:
    """The timeout, clamped. TypeError if it is none, ValueError if it has passed already."""
    given = clamped(timeout, of)
    if timeout <= timedelta(0):
        raise ValueError(f"customccl: the timeout of {of} must be positive, not {timeout.total_seconds():g} s")
    return given


def integer(value: Any, what: str, bits: int = 0) -> int:
    """The int that it is, or stands for (numpy's do). TypeError if it is none, ValueError if `bits` do not hold it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"customccl: {what} must be an int, not {value!r}") from None
    if bits and not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"customccl: {what} is {number}, more than {bits} bits hold")
    return number


def checked_tag(tag: Any, of: str, bits: int) -> int:
    """The tag. TypeError if it is no int, ValueError if `bits` bits do not hold it."""
    number = integer(tag, f"the tag of {of}")
    if not 0 <= number < 1 << bits:
        raise ValueError(f"customccl: the tag of {of} is between 0 and 2**{bits} - 1, not {number}")
    return number


def listed(values: Any, what: str) -> list[Any]:
    """What it holds. TypeError if it holds nothing."""
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"customccl: {what} must be a list, not {values!r}") from None


def reduce_op(value: Any) -> Any:
    """The ReduceOp that it is. TypeError if it is none."""
    if not isinstance(value, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        raise TypeError(
            f"customccl: op must be a torch.distributed.ReduceOp, such as ReduceOp.SUM or ReduceOp.MAX, not {value!r}"
        )
    return value


def utf8(text: str, what: str) -> bytes:
    """The text as stores and libraries take it. ValueError if it is none, as a file name that is not in UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"customccl: {what} is {text[:50]!r}, which UTF-8 cannot say: {error.reason}") from None


def check_length(name: str, of: str) -> None:
    """ValueError for a name that stores could not keep."""
    length = len(utf8(name, f"the name of {of}"))
    if length > _NAME_BYTES:
        raise ValueError(f"customccl: the name of {of} has at most {_NAME_BYTES} bytes, not {length}: {name[:50]!r}...")


def check_group(rank: int, size: int, name: str, ranks: Sequence[int] | None) -> list[int]:
    """What the ranks of the group are called."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"customccl: a group needs a name, not {name!r}")
    check_length(name, "a group")
    for what, value in (("rank", rank), ("size", size)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"customccl: {what} of group {name!r} must be an int, not {value!r}")
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"customccl: rank {rank} of {size} ranks makes no sense for group {name!r}")
    called = list(range(size)) if ranks is None else listed(ranks, f"ranks of group {name!r}")
    if not _name_ranks(called, size):
        raise ValueError(
            f"customccl: ranks={called} does not name {size} ranks for group {name!r}: each needs a number of its "
            "own, an int from 0 to 2**31 - 1"
        )
    return called


def _name_ranks(ranks: Sequence[int], size: int) -> bool:
    try:
        numbers = {operator.index(rank) for rank in ranks if not isinstance(rank, bool)}
    except TypeError:
        return False
    return len(ranks) == len(numbers) == size and all(0 <= number < 1 << 31 for number in numbers)


def check_not_forked(process: int, what: str, group_name: str) -> None:
    """Whether this is still the process that made the group: what a child writes in its store would be its parent's."""
    if process != os.getpid():
        raise dist.DistBackendError(
            f"customccl: {what} of group {group_name!r} refused: this process was forked from the one that made the "
            "group. Make a group of its own, or start it by spawn or forkserver"
        )


def members_key(members: Sequence[str]) -> str:
    """What stands for them, in this order, in keys of a store: their names alone might be too long together."""
    return sha256("/".join(members).encode()).hexdigest()


def check_members(members: Sequence[str], group_name: str) -> list[str]:
    """The names, as a list. TypeError or ValueError if they are not names of members, each of its own."""
    if isinstance(members, str):  # its letters are hardly meant
        raise TypeError(f"customccl: members of group {group_name!r} must be a list of names, not {members!r}")
    names = listed(members, f"members of group {group_name!r}")
    bad = [name for name in names if not isinstance(name, str) or not name or "/" in name]
    if bad or not names or len(set(names)) != len(names):
        raise ValueError(
            f"customccl: members {names} of group {group_name!r}: each needs a name of its own, a str without '/'"
        )
    for name in names:
        check_length(name, "a member")
    return names
