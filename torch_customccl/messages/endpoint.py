"""Named places in a group that messages go to, so that a sender need not know which rank does what."""

from __future__ import annotations

import zlib
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from torch_customccl.group_arguments import check_length, clamped
from torch_customccl.group_store import poll

_TAGS = 1 << 33  # endpoints use the tags from here on, which depend on the name; callers use those below 1 << 32
_NUMBERS = 1 << 31


class Endpoint:
    """A name that one member of the group has opened. Every rank may send to it; the owner receives.

    Messages to different names do not meet, even of one rank. An endpoint follows its owner when the group changes its
    members; when the owner has left, another one may open the name. Made by Group.open_endpoint() and Group.endpoint().
    """

    def __init__(self, group: Any, name: str, member: str, tag: int) -> None:
        self._group = group
        self.name = name
        self._member = member  # the owner's name: ranks change
        self._tag = tag
        self._reconfigurations = group._reconfigurations

    @property
    def owner(self) -> int:
        """The owner's rank in the group. RuntimeError when it is no member any more."""
        return self._owner_among(self._group.members)

    def _owner_among(self, members: list[str]) -> int:
        if self._reconfigurations != self._group._reconfigurations:
            raise RuntimeError(
                f"customccl: endpoint {self.name!r} was opened before reconfigure() of group "
                f"{self._group.group_desc!r}, which names its members anew. Open it again"
            )
        try:
            return members.index(self._member)
        except ValueError:
            raise RuntimeError(
                f"customccl: endpoint {self.name!r} belongs to {self._member!r}, which has left group "
                f"{self._group.group_desc!r}. Another member may open it"
            ) from None

    @classmethod
    def opened(cls, group: Any, name: str) -> Endpoint:
        """Group.open_endpoint()."""
        group._check_open("open_endpoint()")
        _check_name(name)
        store, me = _names(group), group.members[group.rank()]
        before = _entry(store, name)
        if before and before[0] in group.members:
            raise _taken(group, name)
        tag = before[1] if before else _new_tag(store, name)
        entry = f"{tag} {me}"
        expected = f"{before[1]} {before[0]}" if before else ""
        if bytes(store.compare_set(f"name/{name}", expected, entry)).decode() != entry:
            raise _taken(group, name)  # another rank was faster
        return cls(group, name, me, tag)

    @classmethod
    def found(cls, group: Any, name: str, timeout: timedelta | None) -> Endpoint:
        """Group.endpoint()."""
        _check_name(name)
        store = _names(group)
        limit = group.timeout if timeout is None else clamped(timeout)

        def of_a_member() -> tuple[str, int] | None:
            group._check_open("endpoint()")
            entry = _entry(store, name)
            if entry and entry[0] in group.members:
                return entry
            try:
                group._check_alive()
            except dist.DistBackendError:
                group._check_open("endpoint()")  # it may be closed by now
                raise
            return None

        found = poll(of_a_member, limit)
        if found is None:
            raise dist.DistStoreError(
                f"customccl: no rank of group {group.group_desc!r} has opened endpoint {name!r} within "
                f"{limit.total_seconds():g} s"
            )
        return cls(group, name, *found)

    def send(self, message: Any, *, timeout: timedelta | None = None) -> None:
        """Group.send_message() to the owner."""
        backend, members = (
            self._group._met
        )  # those of one membership, whatever commit() of another thread does meanwhile
        self._group._send_over(backend, message, self._owner_among(members), self._tag, timeout)

    def recv(self, *, timeout: timedelta | None = None, into: Any = None, weights_only: bool = False) -> Any:
        """On the owner: the next message that any rank sent here, as Group.recv_message()."""
        return self.recv_from(timeout=timeout, into=into, weights_only=weights_only)[1]

    def recv_from(
        self, *, timeout: timedelta | None = None, into: Any = None, weights_only: bool = False
    ) -> tuple[int, Any]:
        """recv() that returns (source rank, message)."""
        self._check_owner()
        source, message = self._group._receive_tagged(None, self._tag, timeout, weights_only, into)
        return source, message

    def probe(self) -> tuple[int, int] | None:
        """On the owner: (source rank, size in bytes) of the next message, or None."""
        self._check_owner()
        found: tuple[int, int] | None = self._group._probe_tagged(None, self._tag)
        return found

    def _check_owner(self) -> None:
        if self._group.rank() != self.owner:
            raise ValueError(f"customccl: endpoint {self.name!r} belongs to rank {self.owner}, which alone receives")

    def __repr__(self) -> str:
        return f"<Endpoint {self.name!r} of member {self._member!r}>"


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise TypeError(f"customccl: the name of an endpoint must be a str, not {name!r}")
    check_length(name, "an endpoint")


def _names(group: Any) -> dist.Store:
    return dist.PrefixStore("endpoints", group.own_store)


def _entry(store: dist.Store, name: str) -> tuple[str, int] | None:
    """The member that has opened `name`, and the tag of its messages; None if nobody has."""
    if not store.check([f"name/{name}"]):
        return None
    tag, _, member = store.get(f"name/{name}").decode().partition(" ")
    return member, int(tag)


def _new_tag(store: dist.Store, name: str) -> int:
    number = zlib.crc32(name.encode()) % _NUMBERS
    while store.add(f"tag/{number}", 1) > 1:  # another name has it
        number = (number + 1) % _NUMBERS
    return _TAGS + number


def _taken(group: Any, name: str) -> ValueError:
    return ValueError(f"customccl: endpoint {name!r} of group {group.group_desc} is open already")
