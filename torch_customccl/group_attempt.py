"""How the new members of a group find each other in its store, and meet.

A member may give up and come again, and a new process of its name may come in its place, before all have met. So each
attempt of a member has a nonce, and what it writes is never taken for another attempt's:
  here/NAME     the nonce of NAME's latest attempt; "gone" once that has given up, "dead" if none will come
  of/NONCE      which process makes that attempt (group_deaths.py)
  sees/NONCE    a digest of all nonces, in the order of the members, as this attempt has read them last
All meet at meet/DIGEST. A member goes there once every attempt in the digest sees that very digest: each has read all
others, so nobody waits for what a dead attempt has left. Who has once said that it sees a digest goes there in any
case, for a moment, before it looks again or gives up: another one may wait there for it, and looks again then as well.
A nonce that was replaced never comes back, nor does its digest; and no attempt meets twice at one digest.
Who gives up takes its nonce back before it leaves a meeting or what came of it. So whoever finds a meeting failed, and
all nonces as they were, knows that nobody has given up. Whether all take what came of a meeting, or none, is settled in
one step (group_outcome.py).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl._loader import shim
from torch_customccl.backend import meet
from torch_customccl.group_arguments import SHORTEST
from torch_customccl.group_deaths import DEAD, Deaths, forget_process, here, tell_process
from torch_customccl.group_outcome import Outcome, digest_of

_GONE = "gone"


@dataclass
class Look:
    """What an attempt has seen of all."""

    digest: str  # of the members' latest attempts
    dead: str  # the names of those that have died; ""
    missing: list[str]  # those who have not come, or do not see the same yet
    replaced: bool = False  # whether another process has come as this member
    place: Outcome | None = None  # where all meet now, as nobody is missing


class Attempt:
    """Of this process, the member `me`, to meet the others in `place`.

    Thread rule: withdraw(), still() and what tells or forgets this process by any thread, the others by one.
    """

    def __init__(self, place: dist.Store, group_name: str, members: Sequence[str], me: str, attendance: Any) -> None:
        self._place, self._group_name = place, group_name
        self._members, self.rank = list(members), members.index(me)
        self._here = [here(name) for name in members]
        self._nonce = uuid.uuid4().hex
        self._said: Outcome | None = None  # whose digest this attempt has said it sees, and has not gone to meet at
        self._tried: set[str] = set()  # the digests at which it has gone to meet
        self._attendance = attendance
        self._deaths = Deaths(place, self._members, me, attendance)
        self.tell_process()
        place.set(here(me), self._nonce)

    def tell_process(self) -> None:
        """Which process this is, so that others hear of its end."""
        tell_process(self._place, self._nonce)

    def forget_process(self) -> None:
        """Nobody needs to know it any more."""
        forget_process(self._place, self._nonce)

    def withdraw(self) -> None:
        """Takes the attempt back, if no other one has taken its place."""
        self._place.compare_set(self._here[self.rank], self._nonce, _GONE)

    def look(self) -> Look:
        """Who is there, and who has died."""
        return self._look(self._read(self._here))

    def agree(self) -> Look:
        """As look(); says what it has seen, and looks whether all others say the same."""
        seen = self._look(nonces := self._read(self._here))
        complete = not seen.replaced and not {"", _GONE, DEAD} & set(nonces)
        complete = complete and seen.digest not in self._tried  # else one does not show yet that it gave up
        sees = seen.digest if complete else ""
        if self._said and self._said.digest != sees:
            self.appear()
        if not sees:
            seen.missing = self._with("", nonces) or self._with(_GONE, nonces) or ["others"]  # gone for want of those
            return seen
        if not self._said:
            self._place.set(f"sees/{self._nonce}", sees)
            self._said = Outcome(self._place, nonces)
        others = self._read([f"sees/{nonce}" for nonce in nonces])
        seen.missing = [name for name, its in zip(self._members, others, strict=True) if its != sees]
        seen.missing = seen.missing or self._deaths.silent  # whose end would not show in the meeting
        seen.place = None if seen.missing or seen.dead else self._said
        return seen

    def meet(self, place: Outcome, limit: timedelta) -> Any:
        """The backend of all, from where agree() said that they meet."""
        self._said = None
        self._tried.add(place.digest)
        return self._meet_at(place, limit, self._attendance)

    def appear(self) -> None:
        """For a moment where another one may wait for this attempt, which has said that it sees what that one saw."""
        said, self._said = self._said, None
        if said is not None:
            with contextlib.suppress(Exception):
                self._meet_at(said, SHORTEST, None).shutdown()

    def still(self, outcome: Outcome) -> bool:
        """Whether those who met there are still the members' latest attempts. Of those that have come once."""
        return outcome.digest == digest_of(self._get(self._here))

    def _look(self, nonces: list[str]) -> Look:
        replaced = nonces[self.rank] != self._nonce
        return Look(digest_of(nonces), self._deaths.name(nonces), [], replaced)

    def _meet_at(self, place: Outcome, limit: timedelta, attendance: Any) -> Any:
        keys = shim().GroupKeys(dist.PrefixStore(f"meet/{place.digest}", self._place))
        size, name = len(self._members), self._group_name
        return meet(keys, self.rank, size, limit, name=name, global_ranks=range(size), attendance=attendance)

    def _read(self, keys: list[str]) -> list[str]:
        """Looks rather than waits in the store, whose connection others of this process use meanwhile."""
        if not self._place.check(keys):
            return [self._place.get(key).decode() if self._place.check([key]) else "" for key in keys]
        return self._get(keys)

    def _get(self, keys: list[str]) -> list[str]:
        return [value.decode() for value in self._place.multi_get(keys)]

    def _with(self, value: str, nonces: list[str]) -> list[str]:
        return [name for name, nonce in zip(self._members, nonces, strict=True) if nonce == value]
