"""The members of a Group change while it runs: what prepare() does in the background, so that commit() takes no time.

A group has a sequence of memberships, counted from 1. Each is a set of ranks that have met for themselves, with a place
of their own in the group's store, so a rank of an older one can never be taken for a member of a newer one. Members are
known by names, because a process that replaces another one gets its number. How they meet: group_attempt.py. That all
of them take the new membership, or none: group_outcome.py.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl._interrupts import InterruptibleLock
from torch_customccl._loader import shim
from torch_customccl.group_arguments import LONGEST, SHORTEST, check_not_forked, members_key
from torch_customccl.group_attempt import Attempt, Look
from torch_customccl.group_outcome import DROPPED, MADE, Outcome
from torch_customccl.group_store import poll


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
        self._group_name = group_name
        self._outcome: Outcome | None = None  # of the last meeting, which _backend came of
        self._backend: Any = None
        self._error: BaseException | None = None
        self._lock = InterruptibleLock()  # of what is below, _outcome, _backend and _error
        self._dropped = self._taken = False
        self._attendance = attendance or shim().Attendance()
        self._timeout, self._deadline, self._process = timeout, 0.0, os.getpid()
        self._attempt: Attempt | None = None
        if me in members:
            place = dist.PrefixStore(f"membership/{epoch}/{members_key(members)}", store)
            self._attempt = Attempt(place, group_name, members, me, self._attendance)
        _changes.add(self)
        self._begin()

    @property
    def leaves(self) -> bool:
        """Whether this rank is not among the new members."""
        return self._attempt is None

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

    def take(self, *, decides: bool = True) -> Any:
        """After wait(): the new backend, the caller's from now on, also of one that asks again; None for who leaves.
        `decides`: all others take theirs from now on."""
        while True:
            with self._lock:
                there = not self._dropped and (self.leaves or self._backend is not None)
                if self._taken or (there and (self._outcome is None or not decides or self._outcome.decide(MADE))):
                    self._taken = True
                    break
                lost = self._begin_anew() if there else None
            if lost is not None:
                lost.shutdown()
            self.wait()  # another thread has given it up, or found that all must meet again
        if self._attempt is not None:
            self._attempt.forget_process()
        return self._backend

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
        try:
            self._withdraw()
        finally:  # a Ctrl-C meanwhile leaves neither a meeting nor a backend behind
            self._attendance.give_up()
            self.leave()

    def leave(self) -> None:
        """Leaves what came of the last meeting."""
        with self._lock:
            lost, self._backend = self._backend, None
        if lost is not None:
            lost.shutdown()

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

    def _begin_anew(self) -> Any:
        lost, self._backend = self._backend, None
        self._begin()
        return lost

    def _under_way(self) -> bool:
        """Whether members are being met. Begins anew if one that was met has given up or come anew since."""
        check_not_forked(self._process, "a membership", self._group_name)
        with self._lock:
            if not self._ended.is_set():
                return True
            if self._taken or self._backend is None or self._attempt is None or self._outcome is None:
                return False
            if self._attempt.still(self._outcome) or not self._outcome.decide(DROPPED):
                return False  # nothing has changed, or another has committed before
            lost = self._begin_anew()
        lost.shutdown()
        return True

    def _run(self) -> None:
        try:
            if self._attempt is not None:
                while not self._meet(self._attempt):
                    self.leave()
        except Exception as error:
            with self._lock:
                self._error = error
            self._withdraw()
            self.leave()
        finally:
            self._ended.set()

    def _meet(self, attempt: Attempt) -> bool:
        """Whether all have met. Else one has given up meanwhile, and may come again."""
        place: Any = poll(lambda: self._agreed(attempt), LONGEST)
        left = timedelta(seconds=self._deadline - time.monotonic())
        try:
            backend = attempt.meet(place, max(left, SHORTEST))
        except Exception as error:
            seen = attempt.look()
            if seen.dead:
                raise self._death(seen.dead) from error
            if seen.digest == place.digest or time.monotonic() > self._deadline:
                raise
            return False
        with self._lock:
            self._outcome = place
            if kept := not self._dropped:
                self._backend = backend
        if not kept:
            backend.shutdown()
            raise self._was_given_up()
        place.tell_met(attempt.rank)
        return bool(poll(lambda: self._all_met(attempt, place), LONGEST))

    def _agreed(self, attempt: Attempt) -> Outcome | None:
        """Where all meet, when they do; None as long as they may."""
        seen = attempt.agree()
        if seen.place is not None:
            return seen.place
        with self._lock:
            self._error = self._refusal(seen)
        if self._error is None:
            return None
        self._withdraw()
        attempt.appear()
        raise self._error

    def _all_met(self, attempt: Attempt, place: Outcome) -> bool | None:
        """Whether all others have met as well; None as long as they may. False: one has gone, and may come again."""
        if not (lacking := place.lacking()):
            return True
        seen = attempt.look()
        seen.missing = [self.members[rank] for rank in lacking]
        error = self._refusal(seen)
        if error is None and seen.digest == place.digest:
            return None
        if not place.decide(DROPPED):
            return True  # all had met, and one has committed
        if error is not None:
            raise error
        return False

    def _refusal(self, seen: Look) -> Exception | None:
        if self._dropped:
            return self._was_given_up()
        if seen.replaced:
            return self._not_made(f"another process has come as {self.me!r} meanwhile")
        if seen.dead:
            return self._death(seen.dead)
        if time.monotonic() <= self._deadline:
            return None
        return self._not_made(
            f"{', '.join(seen.missing)} did not come within {self._timeout.total_seconds():g} s. The group goes on as "
            "it was; prepare another membership"
        )

    def _death(self, dead: str) -> Exception:
        return self._not_made(f"{dead} has died. Prepare another membership, without it")

    def _not_made(self, why: str) -> Exception:
        return dist.DistBackendError(
            f"customccl: membership {self.epoch} of group {self._group_name!r} was not made: {why}"
        )

    def _was_given_up(self) -> RuntimeError:
        return RuntimeError(f"customccl: membership {self.epoch} of group {self._group_name!r} was given up by drop()")

    def _withdraw(self) -> None:
        if self._attempt is None:
            return  # it has said nothing
        with contextlib.suppress(RuntimeError):  # the store may be gone
            self._attempt.withdraw()
        self._attempt.forget_process()


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
        return change.take(decides=False)
    except BaseException:
        change.drop()
        change.leave()  # also what had been taken when an interrupt came
        raise
