"""Bytes exchanged among ranks through a store: what a Coordinator is made of."""

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import cast

import torch.distributed as dist

from torch_customccl._pauses import pauses
from torch_customccl.group_arguments import clamped
from torch_customccl.launch.wait_errors import no_show, store_errors

_PIECE = 4 << 20  # bytes of one value: TCPStore refuses 8 MiB


class Board:
    """Rounds of exchange among `members` (global ranks), of which this process is `rank`.

    Every member takes part in the same rounds in the same order. Who differs, or does not come in time, ends the board:
    later rounds are refused with the first cause. By one thread at a time. What a round put into the store is deleted
    when all have read it.
    """

    def __init__(self, store: dist.Store, name: str, members: Sequence[int], rank: int, timeout: timedelta) -> None:
        self._store, self._name, self._timeout = dist.PrefixStore(name, store), name, timeout
        self.members, self.rank = tuple(members), rank
        self._round, self._pid = 0, os.getpid()
        self._broken: str | None = None
        self._unread = 1  # the first round that some member may not have read yet

    def gather(self, what: str, data: bytes, timeout: timedelta | None = None) -> list[bytes]:
        """Every member's data, in the order of members."""
        letters = self._exchange(what, data, self.members, timeout)
        self._unread = self._round  # who came to this round has read those before
        return letters

    def broadcast(self, what: str, data: bytes, src: int, timeout: timedelta | None = None) -> bytes:
        """The data of member `src`; that of others is not looked at."""
        return self._exchange(f"{what} from rank {src}", data, (src,), timeout)[0]

    def wait_until_read(self, deadline: float) -> None:
        """Return when all members have read what they were given, or at `deadline` (time.monotonic())."""
        for number in range(self._unread, self._round + 1):
            try:
                for _ in pauses(deadline):
                    if self._broken is not None or not self._store.check([f"{number}/read"]):
                        break  # the last reader has deleted it
            except RuntimeError:  # the store is gone
                return

    def _exchange(self, what: str, data: bytes, sources: Sequence[int], timeout: timedelta | None) -> list[bytes]:
        if self._broken is not None:
            raise RuntimeError(f"{what} refused: this coordinator failed before: {self._broken}")
        if os.getpid() != self._pid:
            raise RuntimeError(f"{what} refused: this process was forked, and the connection is its parent's")
        limit = self._timeout if timeout is None else clamped(timeout, what)
        self._round += 1
        try:
            return self._one_round(what, data, sources, limit)
        except BaseException as error:  # Ctrl-C as well: this rank's part in the round is lost
            self._broken = str(error) or type(error).__name__
            raise

    def _one_round(self, what: str, data: bytes, sources: Sequence[int], limit: timedelta) -> list[bytes]:
        keys = {source: f"{self._round}/{source}" for source in sources}
        with store_errors(self._title(what), self.rank):
            if self.rank in keys:
                self._put(keys[self.rank], what, data)
            self._wait(keys, what, limit)
            letters = self._store.multi_get(list(keys.values()))
            found = [
                self._read(what, source, keys[source], letter) for source, letter in zip(keys, letters, strict=True)
            ]
            if self._store.add(f"{self._round}/read", 1) == len(self.members):
                for key in [*(key for _, read in found for key in read), f"{self._round}/read"]:
                    self._store.delete_key(key)
        return [data for data, _ in found]

    def _put(self, key: str, what: str, data: bytes) -> None:
        """What, the number of further pieces and the first piece under `key`; before it the further pieces."""
        pieces = [data[i : i + _PIECE] for i in range(0, len(data), _PIECE)] or [b""]
        letters = {f"{key}/{i}": piece for i, piece in enumerate(pieces[1:])}
        letters[key] = f"{what}\n{len(letters)}\n".encode() + pieces[0]
        for name, letter in letters.items():
            self._store.set(name, cast(str, letter))  # annotated as str, and bytes are what it takes

    def _read(self, what: str, source: int, key: str, letter: bytes) -> tuple[bytes, list[str]]:
        """The data of a source that has come, and the keys it is under."""
        said, further, first = bytes(letter).split(b"\n", 2)
        if said != what.encode():
            raise RuntimeError(
                f"the ranks called different things in round {self._round} of {self._name}: rank {self.rank} "
                f"{what}, rank {source} {said.decode(errors='replace')}. Make them call the same"
            )
        more = [f"{key}/{i}" for i in range(int(further))]
        return b"".join([first, *(bytes(self._store.get(name)) for name in more)]), [key, *more]

    def _wait(self, keys: dict[int, str], what: str, limit: timedelta) -> None:
        for _ in pauses(time.monotonic() + limit.total_seconds()):
            if self._store.check(list(keys.values())):
                return
        missing = [source for source, key in keys.items() if not self._store.check([key])]
        if missing:
            raise no_show(self._title(what), self.rank, missing, limit.total_seconds())

    def _title(self, what: str) -> str:
        return f"{what} (round {self._round} of {self._name})"
