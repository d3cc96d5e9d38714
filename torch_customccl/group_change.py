"""The members of a Group change while it runs: what prepare() does in the background, so that commit() takes no time.

A group has a sequence of memberships, counted from 1. Each is a set of ranks that have met for themselves, with a place
of their own in the group's store, so a rank of an older one can never be taken for a member of a newer one. Members are
known by names, because a process that replaces another one gets its number.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl.backend import meet

_EPOCH = "membership"  # the latest that anybody has committed


class Change:
    """A membership that is being prepared. Thread rule: any thread."""

    def __init__(
        self, store: dist.Store, group_name: str, epoch: int, members: Sequence[str], me: str, timeout: timedelta
    ) -> None:
        self.epoch = epoch
        self.members = list(members)
        self.me = me
        self._group_name = group_name
        self._place = dist.PrefixStore(f"membership/{epoch}/{'/'.join(members)}", store)
        self._timeout = timeout
        self._backend: Any = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._dropped = False
        self._thread = threading.Thread(target=self._run, name="customccl-prepare", daemon=True)
        self._thread.start()

    @property
    def leaves(self) -> bool:
        """Whether this rank is not among the new members."""
        return self.me not in self.members

    def ready(self) -> bool:
        """Whether commit() would not have to wait: all members are there, or the attempt has failed."""
        return not self._thread.is_alive()

    def wait(self) -> Any:
        """The new backend, or None for a rank that leaves, once all members are there. Raises what went wrong."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._backend

    def drop(self) -> None:
        """Gives the membership up, without waiting; its other members see that this rank has left it."""
        with self._lock:
            self._dropped = True
            backend, self._backend = self._backend, None
        if backend is not None:
            backend.shutdown()

    def _run(self) -> None:
        try:
            backend = None if self.leaves else self._meet()
        except Exception as error:
            self._error = error
            return
        with self._lock:
            if not self._dropped:
                self._backend = backend
                return
        if backend is not None:
            backend.shutdown()

    def _meet(self) -> Any:
        rank = self.members.index(self.me)
        started = time.monotonic()
        self._await_all(started)
        left = max(self._timeout - timedelta(seconds=time.monotonic() - started), timedelta(milliseconds=1))
        size, names = len(self.members), range(len(self.members))
        return meet(self._place, rank, size, left, name=self._group_name, global_ranks=names, background=True)

    def _await_all(self, started: float) -> None:
        """Looks now and then rather than waits in the store, whose connection others of this process use meanwhile."""
        self._place.set(f"here/{self.me}", "")
        missing, pause = self.members, 0.0005
        while missing := [name for name in missing if not self._place.check([f"here/{name}"])]:
            if self._dropped:
                raise RuntimeError("customccl: this membership was given up")
            if time.monotonic() - started > self._timeout.total_seconds():
                raise dist.DistBackendError(
                    f"customccl: membership {self.epoch} of group {self._group_name!r} was not made: "
                    f"{', '.join(missing)} did not come within {self._timeout.total_seconds():g} s. The group goes on "
                    "as it was; prepare another membership"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


def latest(store: dist.Store) -> int:
    """The latest membership that a rank has committed; 1 if none has."""
    return int(store.get(_EPOCH)) if store.check([_EPOCH]) else 1


def publish(store: dist.Store, epoch: int) -> None:
    store.set(_EPOCH, str(epoch))


def check_members(members: Sequence[str], group_name: str) -> list[str]:
    names = list(members)
    bad = [name for name in names if not isinstance(name, str) or not name or "/" in name]
    if bad or not names or len(set(names)) != len(names):
        raise ValueError(
            f"customccl: members {names} of group {group_name!r}: each needs a name of its own, a str without '/'"
        )
    return names


def check_not_stale(store: dist.Store, epoch: int, me: str, group_name: str) -> None:
    """RuntimeError for a rank that the others have left behind."""
    now = latest(store)
    if now > epoch:
        raise RuntimeError(
            f"customccl: {me!r} is of membership {epoch} of group {group_name!r}, which is at {now} without it. Close "
            "this group and join_group() under a new name"
        )
