"""Groups of ranks without init_process_group: create_group() and Group."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from torch_customccl import group_registry
from torch_customccl.backend import make_backend
from torch_customccl.group_operations import Operations
from torch_customccl.group_store import open_store

DEFAULT_TIMEOUT = timedelta(minutes=30)


def create_group(
    store_or_uri: dist.Store | str,
    rank: int,
    size: int,
    name: str,
    *,
    timeout: timedelta = DEFAULT_TIMEOUT,
    ranks: Sequence[int] | None = None,
    listener: socket.socket | None = None,
) -> Group:
    """A group of `size` processes of this machine that meet in a store; this process is `rank` of 0..size-1.

    Collective over the group, and nobody else: no init_process_group, no default group, no port or socket per group.
    A process may be in any number of groups; groups of one store are told apart by `name`, and those of one name by
    their order. `store_or_uri`: a c10d Store, or a URI (torch_customccl.open_store says which). `listener`: for
    "tcp://..." on the rank that serves it, a bound socket. `timeout`: of the set-up and of every operation that names
    none. `ranks`: what errors, and the `src` and `dst` of torch.distributed's functions, call the ranks 0..size-1.

    Raises ValueError or TypeError for arguments that make no sense; torch.distributed.DistBackendError when a rank does
    not come within the timeout.
    """
    _check(rank, size, name, timeout, ranks)
    store = open_store(store_or_uri, rank, timeout=timeout, listener=listener)
    return Group(dist.PrefixStore(f"group/{name}", store), rank, size, name, timeout, list(ranks or range(size)))


class Group(Operations):
    """A group of ranks, and a registered torch ProcessGroup: torch.distributed's functions, functional collectives and
    DeviceMesh take it as `group=`. Made by create_group(), split() and subgroup().

    rank(), size(): of this process in the group. `group_desc`: the name it was given. Thread rule: as a torch
    ProcessGroup's; threads that share a group must agree on the order of its collectives. A group lives until close().
    """

    def __init__(
        self, store: dist.Store, rank: int, size: int, name: str, timeout: timedelta, ranks: Sequence[int]
    ) -> None:
        backend = make_backend(store, rank, size, timeout, name=name, global_ranks=ranks)
        super().__init__(store, backend)  # type: ignore[call-arg]
        self._backend = backend
        self._keys = store
        self._timeout = timeout
        self._ranks = list(ranks)
        self._open = True
        group_registry.register(self, name, ranks)

    @property
    def process_group(self) -> dist.ProcessGroup:
        """The group itself, entered again into torch's tables if destroy_process_group() has emptied them."""
        if self._open:
            group_registry.enter(self, self._ranks)
        return self

    @property
    def ranks(self) -> list[int]:
        """What errors and torch.distributed's functions call ranks 0..size-1; by default just that."""
        return list(self._ranks)

    @property
    def timeout(self) -> timedelta:
        """The limit of operations that name none."""
        return self._timeout

    @property
    def closed(self) -> bool:
        """Whether close() was called on this rank."""
        return not self._open

    def subgroup(self, ranks: Sequence[int], name: str | None = None) -> Group | None:
        """A group of some ranks of this one, in the order given; None on ranks that are not among them.

        Collective over `ranks` alone. Two groups over the same ranks stay apart. Uses this group's store and mapped
        memory: no new sockets.
        """
        members = [self._checked(rank, "ranks") for rank in ranks]
        if not members or len(set(members)) != len(members):
            raise ValueError(f"customccl: a subgroup of ranks {members} makes no sense")
        if self.rank() not in members:
            return None
        label = name or f"{self.group_desc}/{'-'.join(map(str, members))}"
        store = dist.PrefixStore(f"sub/{'-'.join(map(str, members))}/{name or ''}", self._keys)
        world = [self._ranks[member] for member in members]
        return Group(store, members.index(self.rank()), len(members), label, self._timeout, world)

    def split(self, color: int | None, key: int = 0, name: str | None = None) -> Group | None:
        """Groups of the ranks that gave the same color, in the order of (key, rank); None for color None.

        Collective over the whole group.
        """
        mine = torch.tensor([color is not None, color or 0, key])
        colors = torch.empty(3 * self.size(), dtype=torch.int64)
        self.all_gather_into_tensor(colors, mine)
        if color is None:
            return None
        rows = colors.view(-1, 3).tolist()
        same = [rank for rank, (given, other, _) in enumerate(rows) if given and other == color]
        return self.subgroup(sorted(same, key=lambda rank: (rows[rank][2], rank)), name or f"{self.group_desc}/{color}")

    def close(self) -> None:
        """Leaves the group; does not wait for the other ranks. Operations that are not done end with an error. A second
        call does nothing."""
        if not self._open:
            return
        self._open = False
        group_registry.forget(self)
        self.shutdown()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._open else ", closed"
        return f"<Group {self.group_desc!r}: rank {self.rank()} of {self.size()}{state}>"


def _check(rank: int, size: int, name: str, timeout: timedelta, ranks: Sequence[int] | None) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"customccl: a group needs a name, not {name!r}")
    for what, value in (("rank", rank), ("size", size)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"customccl: {what} of group {name!r} must be an int, not {value!r}")
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"customccl: rank {rank} of {size} ranks makes no sense for group {name!r}")
    if timeout <= timedelta(0):
        raise ValueError(f"customccl: the timeout of group {name!r} must be positive, not {timeout}")
    if ranks is not None and (len(ranks) != size or len(set(ranks)) != size):
        raise ValueError(f"customccl: ranks={list(ranks)} does not name {size} ranks for group {name!r}")
