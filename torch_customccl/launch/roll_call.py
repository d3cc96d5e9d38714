"""All ranks of a launch at one time, and a name for that gathering which no other has.

A rank may give up and begin anew while others still wait, and the store of torchrun's agent outlives every attempt.
So nothing is counted. Each rank lays down a letter that only this attempt of it has; all letters together name the
gathering; who has read them signs it. What becomes of a gathering is settled once, by an atomic step in the store:
"met" by who has seen all signatures, "off" by who leaves, because its time is up or a letter has been replaced.

Why that is right in every order: equal names mean equal letters, so the same attempts. "met" needs the signature of
every rank, and who has signed does not leave before it has learned what was settled: either all of them have met, or
none. While all ranks are here and no letter changes any more, all read the same, sign the same, and nobody ends it.
"""

import contextlib
import hashlib
import time
from datetime import timedelta

import torch.distributed as dist

from torch_customccl._pauses import pauses
from torch_customccl.launch.wait_errors import no_show, store_errors


class RollCall:
    """One attempt of `rank`, with its `letter`: text that no other attempt of any rank has."""

    def __init__(self, store: dist.Store, rank: int, size: int, letter: str) -> None:
        self._store, self._rank, self._size, self._letter = store, rank, size, letter
        self._places = [f"letter/{i}" for i in range(size)]

    def gather(self, title: str, timeout: timedelta) -> tuple[str, list[str]]:
        """The name of the gathering, and the letters by rank.

        Raises TimeoutError when ranks did not come, ConnectionError when the store is gone or another process speaks
        for this rank. Then no rank has met, but for one case: an interrupt (Ctrl-C) after all have signed.
        """
        deadline = time.monotonic() + timeout.total_seconds()
        with store_errors(title, self._rank):
            self._store.set(self._places[self._rank], self._letter)
            try:
                for _ in pauses(deadline):
                    letters = self._read()
                    if letters and letters[self._rank] != self._letter:
                        raise ConnectionError(
                            f"{title}: another process speaks for rank {self._rank} of this launch. Two processes were "
                            "given the same rank"
                        )
                    if not letters or "" in letters:
                        continue
                    name = hashlib.sha256("\n".join(letters).encode()).hexdigest()[:16]
                    if self._sign(name, letters, deadline):
                        return name, letters
                missing = self._missing()
            finally:
                with contextlib.suppress(RuntimeError):  # the store is gone
                    self._store.compare_set(self._places[self._rank], self._letter, "")
        raise no_show(title, self._rank, missing, timeout.total_seconds())

    def _read(self) -> list[str]:
        """The letters by rank, "" for who has left. [] while some rank has never been here."""
        if not self._store.check(self._places):
            return []
        return [bytes(letter).decode() for letter in self._store.multi_get(self._places)]

    def _sign(self, name: str, letters: list[str], deadline: float) -> bool:
        """Whether this gathering has met."""
        signatures = [f"{name}/{i}" for i in range(self._size)]
        all_signed = False
        try:
            self._store.set(signatures[self._rank], "here")
            for _ in pauses(deadline):
                all_signed = self._store.check(signatures)
                if all_signed or self._read() != letters:
                    break
        finally:  # an interrupt comes through here as well
            settled = self._store.compare_set(f"{name}/settled", "", "met" if all_signed else "off")
        if bytes(settled) != b"met":
            self._store.delete_key(signatures[self._rank])
            return False
        if self._store.add(f"{name}/read", 1) == self._size:  # the last one clears up
            for key in (*signatures, f"{name}/settled", f"{name}/read"):
                self._store.delete_key(key)
        return True

    def _missing(self) -> list[int]:
        """Who has never been here; else who has left; else who has not answered, which may be any of the others."""
        others = [i for i in range(self._size) if i != self._rank]
        never = [i for i in others if not self._store.check([self._places[i]])]
        return never or [i for i in others if not self._store.get(self._places[i])] or others
