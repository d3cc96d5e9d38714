"""The members of a Group change while it runs: what prepare() does in the background, so that commit() takes no time.

A group has a sequence of memberships, counted from 1. Each is a set of ranks that have met for themselves, with a place
of their own in the group's store, so a rank of an older one can never be taken for a member of a newer one. Members are
known by names, because a process that replaces another one gets its number.

A member may give up and come again, and a new process of its name may come in its place, before all have met. So each
attempt of a member has a nonce, and what it writes is never taken for another attempt's:
  here/NAME     the nonce of NAME's latest attempt; "gone" once that has given up, "dead" if none will come
  of/NONCE      which process makes that attempt (group_deaths.py)
  sees/NONCE    a digest of all nonces, in the order of the members, as this attempt has read them last
All meet at meet/DIGEST. A member goes there once every attempt in the digest sees that very digest: each has read all
others, so nobody waits for what a dead attempt has left. Who has once said that it sees a digest goes there in any
case, for a moment, before it looks again or gives up: another one may wait there for it, and looks again then as well.
A nonce that was replaced never comes back, nor does its digest.
Who gives up takes its nonce back before it leaves a meeting or what came of it. So whoever finds a meeting failed, and
all nonces as they were, knows that nobody has given up.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
import time
import uuid
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl._interrupts import InterruptibleLock
from torch_customccl._loader import shim
from torch_customccl.backend import meet
from torch_customccl.group_arguments import LONGEST, SHORTEST, check_not_forked, members_key
from torch_customccl.group_deaths import DEAD, Deaths, forget_process, here, tell_process
from torch_customccl.group_store import poll

_GONE = "gone"


class Change:
    """A membership that is being prepared. Thread rule: any thread."""

    def __init__(
        self,
        store: dist.Store,
        group_name: str,
        epoch: int,
        members: Sequence[str],
        me: str,
        timeout: timedelta,
        attendance: Any = None,
    ) -> None:
        self.epoch, self.members, self.me = epoch, list(members), me
        self._place = dist.PrefixStore(f"membership/{epoch}/{members_key(members)}", store)
        self._here = [here(name) for name in members]
        self._group_name, self._nonce = group_name, uuid.uuid4().hex
        self._said = ""  # the digest that this attempt has said it sees, and has not gone to meet at
        self._met = ""  # the digest of those whom _backend connects
        self._backend: Any = None
        self._error: BaseException | None = None
        self._lock = InterruptibleLock()  # of what is below, _met, _backend and _error
        self._dropped = self._taken = False
        self._attendance = attendance or shim().Attendance()
        self._deaths = Deaths(self._place, self.members, me, self._attendance)
        self._timeout, self._deadline, self._process = timeout, 0.0, os.getpid()
        if not self.leaves:
            tell_process(self._place, self._nonce)
            self._place.set(here(me), self._nonce)
        _changes.add(self)
        self._begin()

    @property
    def leaves(self) -> bool:
        """Whether this rank is not among the new members."""
        return self.me not in self.members

    def ready(self) -> bool:
        """Whether commit() would not have to wait: all members are there, or the attempt has failed."""
        return not self._under_way()

    def wait(self) -> None:
        """Until all members are there. Raises what went wrong."""
        while self._under_way():
            self._ended.wait()  # Thread.join() takes a thread for dead that Ctrl-C kept it from waiting for
        if self._error is not None:
            raise self._error
        if self._dropped:
            raise self._was_given_up()

    def take(self) -> Any:
        """After wait(): the new backend, the caller's from now on, also of one that asks again; None for who leaves."""
        while True:
            with self._lock:
                self._taken = self._taken or (not self._dropped and (self.leaves or self._backend is not None))
            if self._taken:
                if not self.leaves:
                    forget_process(self._place, self._nonce)
                return self._backend
            self.wait()  # another thread has given it up, or found that all must meet again

    def ended(self, limit: timedelta) -> bool:
        """Waits until nothing is under way any more, whatever came of it."""
        return self._ended.wait(limit.total_seconds())

    def drop(self) -> None:
        """Gives the membership up, without waiting; its other members see that this rank has left it. After commit()
        it does nothing, nor in a forked child."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._dropped or self._taken:
                return
            self._dropped = True
            backend, self._backend = self._backend, None
        try:
            self._withdraw()
        finally:  # a Ctrl-C meanwhile leaves neither a meeting nor a backend behind
            self._attendance.give_up()
            if backend is not None:
                backend.shutdown()

    def goes_on(self, members: Sequence[str], timeout: timedelta) -> bool:
        """Whether it is an attempt to meet `members` that has not ended; it has this limit from now on."""
        with self._lock:
            if self._dropped or self._taken or self._error is not None or self.members != list(members):
                return False
            self._timeout, self._deadline = timeout, time.monotonic() + timeout.total_seconds()
            return True

    def _begin(self) -> None:
        self._deadline = time.monotonic() + self._timeout.total_seconds()
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="customccl-prepare", daemon=True).start()

    def _under_way(self) -> bool:
        """Whether members are being met. Begins anew if one that was met has given up or come anew since."""
        check_not_forked(self._process, "a membership", self._group_name)
        with self._lock:
            if not self._ended.is_set():
                return True
            if self._taken or self._backend is None or self._met == _digest(self._get(self._here)):
                return False
            backend, self._backend = self._backend, None
            self._begin()
        backend.shutdown()
        return True

    def _run(self) -> None:
        try:
            if not self.leaves:
                self._meet()
        except Exception as error:
            with self._lock:
                self._error = error
            self._withdraw()
        finally:
            self._ended.set()

    def _meet(self) -> None:
        while True:
            poll(self._agreed, LONGEST)
            digest, self._said = self._said, ""
            left = timedelta(seconds=self._deadline - time.monotonic())
            try:
                backend = self._meet_at(digest, max(left, SHORTEST))
            except Exception as error:
                nonces = self._nonces()
                if death := self._death(nonces):
                    raise death from error
                if digest == _digest(nonces) or time.monotonic() > self._deadline:
                    raise
                continue  # one has given up meanwhile, and may come again
            with self._lock:
                if not self._dropped:
                    self._met, self._backend = digest, backend
                    return
            self._withdraw()  # drop() may not have come so far yet
            backend.shutdown()
            raise self._was_given_up()

    def _agreed(self) -> bool | None:
        """Whether all see what this attempt sees. Looks once, and says what it sees."""
        nonces = self._nonces()
        death = self._death(nonces)
        mine = nonces[self.members.index(self.me)] == self._nonce
        digest = _digest(nonces) if mine and not {"", _GONE, DEAD} & set(nonces) else ""
        if self._said and self._said != digest:
            self._appear()
        if digest and not self._said:
            self._place.set(f"sees/{self._nonce}", digest)
            self._said = digest
        if digest:
            seen = self._read([f"sees/{nonce}" for nonce in nonces])
            missing = [name for name, its in zip(self.members, seen, strict=True) if its != digest]
            if not missing and death is None:
                return True
        else:
            missing = self._with("", nonces) or self._with(_GONE, nonces)  # may be gone for want of the others
        with self._lock:
            self._error = self._refusal(mine, missing, death)
        if self._error is None:
            return None
        self._withdraw()
        if self._said:
            self._appear()
        raise self._error

    def _refusal(self, mine: bool, missing: list[str], death: Exception | None) -> Exception | None:
        if self._dropped:
            return self._was_given_up()
        if not mine:
            return self._not_made(f"another process has come as {self.me!r} meanwhile")
        if death is not None:
            return death
        if time.monotonic() <= self._deadline:
            return None
        return self._not_made(
            f"{', '.join(missing)} did not come within {self._timeout.total_seconds():g} s. The group goes on as it "
            "was; prepare another membership"
        )

    def _death(self, nonces: list[str]) -> Exception | None:
        dead = self._deaths.name(nonces)
        return self._not_made(f"{dead} has died. Prepare another membership, without it") if dead else None

    def _not_made(self, why: str) -> Exception:
        return dist.DistBackendError(
            f"customccl: membership {self.epoch} of group {self._group_name!r} was not made: {why}"
        )

    def _appear(self) -> None:
        digest, self._said = self._said, ""
        with contextlib.suppress(Exception):
            self._meet_at(digest, SHORTEST).shutdown()

    def _meet_at(self, digest: str, limit: timedelta) -> Any:
        place = shim().GroupKeys(dist.PrefixStore(f"meet/{digest}", self._place))
        rank, size = self.members.index(self.me), len(self.members)
        attendance = None if limit is SHORTEST else self._attendance
        return meet(place, rank, size, limit, name=self._group_name, global_ranks=range(size), attendance=attendance)

    def _nonces(self) -> list[str]:
        """Of the members' latest attempts, or what is there instead of one."""
        return self._read(self._here)

    def _read(self, keys: list[str]) -> list[str]:
        """Looks rather than waits in the store, whose connection others of this process use meanwhile."""
        if not self._place.check(keys):
            return [self._place.get(key).decode() if self._place.check([key]) else "" for key in keys]
        return self._get(keys)

    def _get(self, keys: list[str]) -> list[str]:
        return [value.decode() for value in self._place.multi_get(keys)]

    def _with(self, value: str, nonces: list[str]) -> list[str]:
        return [name for name, nonce in zip(self.members, nonces, strict=True) if nonce == value]

    def _withdraw(self) -> None:
        if self.leaves:
            return  # it has said nothing
        with contextlib.suppress(RuntimeError):  # the store may be gone
            self._place.compare_set(here(self.me), self._nonce, _GONE)
        forget_process(self._place, self._nonce)

    def _was_given_up(self) -> RuntimeError:
        return RuntimeError(f"customccl: membership {self.epoch} of group {self._group_name!r} was given up by drop()")


_changes: weakref.WeakSet[Change] = weakref.WeakSet()
os.register_at_fork(after_in_child=_changes.clear)  # they are the parent's


@atexit.register
def _end_all() -> None:
    """Python ends the process by a signal where it meets a thread of its own coming back from C++ while it ends."""
    under_way = [change for change in list(_changes) if not change.ended(timedelta(0))]
    for change in under_way:
        change.drop()
    for change in under_way:
        change.ended(timedelta(seconds=1))


def joined(change: Change) -> Any:
    """The backend of a member that is in no group yet."""
    try:
        change.wait()
        return change.take()
    except BaseException:
        change.drop()
        raise


def _digest(nonces: list[str]) -> str:
    return hashlib.sha256("/".join(nonces).encode()).hexdigest()
