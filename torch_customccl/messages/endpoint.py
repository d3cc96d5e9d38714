"""Named places in a group that messages go to, so that a sender need not know which rank does what."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any

import torch.distributed as dist

_TAGS = 1 << 31  # endpoints use the tags from here on, which depend on the name


class Endpoint:
    """A name that one rank of the group has opened. Every rank may send to it; the owner receives.

    Messages to different names do not meet, even of one rank. Made by Group.open_endpoint() and Group.endpoint().
    """

    def __init__(self, group: Any, name: str, owner: int, tag: int) -> None:
        self._group = group
        self.name = name
        self.owner = owner  # rank in the group
        self._tag = tag

    @classmethod
    def opened(cls, group: Any, name: str) -> Endpoint:
        store = _names(group)
        tag = _TAGS + (zlib.crc32(name.encode()) & (_TAGS - 1))
        while store.add(f"tag/{tag}", 1) > 1:  # another name, or this one again, has it
            if store.check([f"name/{name}"]):
                raise ValueError(f"customccl: endpoint {name!r} of group {group.group_desc} is open already")
            tag = _TAGS + (tag + 1) % _TAGS
        store.set(f"name/{name}", f"{group.rank()} {tag}")
        return cls(group, name, group.rank(), tag)

    @classmethod
    def found(cls, group: Any, name: str, timeout: timedelta | None) -> Endpoint:
        store = _names(group)
        store.wait([f"name/{name}"], timeout or group.timeout)
        owner, tag = (int(word) for word in store.get(f"name/{name}").split())
        return cls(group, name, owner, tag)

    def send(self, message: Any, *, timeout: timedelta | None = None) -> None:
        """Group.send_message() to the owner."""
        self._group.send_message(message, self.owner, self._tag, timeout=timeout)

    def recv(self, *, timeout: timedelta | None = None, into: Any = None, weights_only: bool = False) -> Any:
        """On the owner: the next message that any rank sent here, as Group.recv_message()."""
        return self.recv_from(timeout=timeout, into=into, weights_only=weights_only)[1]

    def recv_from(
        self, *, timeout: timedelta | None = None, into: Any = None, weights_only: bool = False
    ) -> tuple[int, Any]:
        """recv() that returns (source rank, message)."""
        self._check_owner()
        options: dict[str, Any] = {"timeout": timeout, "into": into, "weights_only": weights_only}
        source, message = self._group.recv_message_from(None, self._tag, **options)
        return source, message

    def probe(self) -> tuple[int, int] | None:
        """On the owner: (source rank, size in bytes) of the next message, or None."""
        self._check_owner()
        found: tuple[int, int] | None = self._group.probe_message(None, self._tag)
        return found

    def _check_owner(self) -> None:
        if self._group.rank() != self.owner:
            raise ValueError(f"customccl: endpoint {self.name!r} belongs to rank {self.owner}, which alone receives")

    def __repr__(self) -> str:
        return f"<Endpoint {self.name!r} of rank {self.owner}>"


def _names(group: Any) -> dist.Store:
    return dist.PrefixStore("endpoints", group.own_store)
