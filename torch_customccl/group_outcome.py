"""What becomes of a membership whose members have met: all of them take it, or none does.

Those who meet commit at moments of their own, and one may give up, fail or die in between. So what becomes of a meeting
is one word in the store, which the first writes who can (attempts and digests: group_attempt.py):
  met/NONCE        anything, once this attempt has met all others of its digest
  outcome/DIGEST   "made", from a present member that commits and has read that every attempt of the digest has met;
                   "dropped", from an attempt of it that has read that another one has gone, or does not wait for it
                   any longer
Neither is ever changed. Whoever commits finds "made" there, or writes it, and then all others can do the same: each has
what it needs. Whoever finds "dropped", or writes it, knows that nobody has committed, nor will. So does an attempt that
fails before it has said that it met: without it there is no "made". Who gives up after that leaves it to the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch.distributed as dist

MADE, DROPPED = "made", "dropped"


def digest_of(attempts: Sequence[str]) -> str:
    """Of the nonces of all members, in the order of their ranks."""
    return hashlib.sha256("/".join(attempts).encode()).hexdigest()


class Outcome:
    """Of the meeting of `attempts`. Thread rule: any thread."""

    def __init__(self, place: dist.Store, attempts: Sequence[str]) -> None:
        self.digest = digest_of(attempts)
        self._place, self._met = place, [f"met/{attempt}" for attempt in attempts]

    def tell_met(self, rank: int) -> None:
        """That the attempt of `rank`, the caller's, has met all others."""
        self._place.set(self._met[rank], "")

    def lacking(self) -> list[int]:
        """The ranks that have not said that they met all others."""
        if self._place.check(self._met):
            return []
        return [rank for rank, key in enumerate(self._met) if not self._place.check([key])]

    def decide(self, word: str) -> bool:
        """Whether the outcome is `word`, and from now on it is, unless somebody has written the other before."""
        return self._place.compare_set(f"outcome/{self.digest}", "", word).decode() == word
