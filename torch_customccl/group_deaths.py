"""Which members of a membership that is being met have died, new ones too, of whom no group knows anything yet.

Each attempt (group_change.py) tells in the store which process makes it: the others map its memory, as they will in the
meeting, and that shows when it ends. What was called dead once is from then on as one that never came: another process
may come in its place. In the stead of a present member, of which there is no other, those write who know that it died.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from torch_customccl._loader import shim

DEAD = "dead"  # instead of an attempt: none will come
_named: set[tuple[str, str]] = set()  # to which member of this process, what attempt was called dead


def here(member: str) -> str:
    """Where the latest attempt of a member stands, or what is there instead of one."""
    return f"here/{member}"


def tell_process(place: dist.Store, attempt: str) -> None:
    """That this process makes `attempt`; before others can know of it."""
    place.set(_of(attempt), shim().Attendance.own_address())


def forget_process(place: dist.Store, attempt: str) -> None:
    """That `attempt` has ended: what lets others map this process stays in no store. Not deleted: one may read it."""
    with contextlib.suppress(RuntimeError):  # the store may be gone
        place.set(_of(attempt), "")


def places(members: Sequence[str], present: Sequence[str]) -> list[int]:
    """Of each of `members` its rank among the present ones, -1 if it is new."""
    return [present.index(name) if name in present else -1 for name in members]


class Deaths:
    """Of the `members` that `me` meets in `place`, by rank. Thread rule: used by one thread."""

    def __init__(self, place: dist.Store, members: Sequence[str], me: str, attendance: Any) -> None:
        self._place, self._members, self._me, self._attendance = place, members, me, attendance
        self._watched: dict[int, str] = {}  # rank -> attempt
        self.silent: list[str] = []  # whose processes have not answered yet

    def name(self, attempts: Sequence[str]) -> str:
        """The names of those that have died, for the caller to tell; "" if none has. `attempts`: what is here()."""
        self.silent = []
        for rank, attempt in enumerate(attempts):
            if self._watched.get(rank, "") == attempt or self._attendance.knows(rank):
                continue
            if self._attendance.watch(rank, self._process_of(attempt)):
                self._watched[rank] = attempt
            else:
                self.silent.append(self._members[rank])
        dead = {*self._attendance.died(), *(rank for rank, attempt in enumerate(attempts) if attempt == DEAD)}
        for rank in dead:
            _named.add((self._me, attempts[rank]))
            if self._attendance.knows(rank):
                self._place.compare_set(here(self._members[rank]), attempts[rank], DEAD)
        return ", ".join(self._members[rank] for rank in sorted(dead))

    def _process_of(self, attempt: str) -> str:
        if (self._me, attempt) in _named or not self._place.check([_of(attempt)]):
            return ""
        return self._place.get(_of(attempt)).decode()


def _of(attempt: str) -> str:
    return f"of/{attempt}"
