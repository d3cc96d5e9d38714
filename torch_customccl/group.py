"""Groups of ranks without init_process_group: create_group() and Group."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from torch_customccl import group_deaths, group_epochs, group_registry
from torch_customccl.backend import attendance_of, drain, latest_keys, meet, own_keys
from torch_customccl.group_arguments import check_group, check_members, check_not_forked, integer, limited, listed
from torch_customccl.group_change import Change, joined
from torch_customccl.group_store import NOT_ITS_OWNER, open_store
from torch_customccl.messages import Messages

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

    Raises ValueError or TypeError for bad arguments; torch.distributed.DistBackendError when a rank comes too late.
    """
    world = check_group(rank, size, name, ranks)
    limit = limited(timeout, f"group {name!r}")
    store = open_store(store_or_uri, rank, timeout=limit, listener=listener)
    return _meet(dist.PrefixStore(f"group/{name}", store), rank, name, limit, world)


def join_group(
    store_or_uri: dist.Store | str, members: Sequence[str], me: str, name: str, *, timeout: timedelta = DEFAULT_TIMEOUT
) -> Group:
    """The running group `name`, as one of its next `members`, which its present ones prepare() and commit().

    `members`: the names of all, in the order of their ranks; `me`: this process's. The ranks of create_group() are
    named "0", "1", ... A process that takes another one's place in the list gets its number; names are never used
    again. A server that a URI names runs already: this process only connects. Returns when all members are there;
    operations wait until they have committed. `timeout`: for all to come, and of every operation that names none.
    Raises torch.distributed.DistStoreError where no such group is.
    """
    check_group(0, 1, name, None)
    names = check_members(members, name)
    limit = limited(timeout, f"join_group() of {name!r}")
    if me not in names:
        raise ValueError(f"customccl: {me!r} is not among the members {names} of group {name!r}")
    opened = open_store(store_or_uri, NOT_ITS_OWNER, timeout=limit)
    keys = latest_keys(dist.PrefixStore(f"group/{name}", opened), limit, name)
    epoch = group_epochs.latest(keys) + 1
    backend = joined(Change(keys, name, epoch, names, me, limit))
    return Group(keys, name, limit, backend, names, me, epoch=epoch)


class Group(Messages):
    """A group of ranks, and a registered torch ProcessGroup: torch.distributed's functions, functional collectives and
    DeviceMesh take it as `group=`. Made by create_group(), split() and subgroup().

    rank(), size(): of this process in the group. `group_desc`: the name it was given. Thread rule: as a torch
    ProcessGroup's; threads that share a group must agree on the order of its collectives. A group lives until close().
    """

    def __init__(
        self,
        store: dist.Store,
        name: str,
        timeout: timedelta,
        backend: Any,
        members: Sequence[str],
        me: str,
        *,
        ranks: Sequence[int] | None = None,
        epoch: int = 1,
    ) -> None:
        super().__init__(store, backend)  # type: ignore[call-arg]
        self._own_store, self._timeout = store, timeout
        self._use(backend, list(members))
        self._me, self._epoch = me, epoch
        self._era = str(epoch)  # the present membership, in keys of the store; the same on all members
        self._change: Change | None = None
        self._ranks = list(ranks or range(len(members)))
        self._open, self._ended, self._process = True, False, os.getpid()
        self._reconfigurations = 0  # how often reconfigure() has given this group other members
        group_registry.register(self, name, self._ranks)

    @property
    def process_group(self) -> dist.ProcessGroup:
        """The group itself, entered again into torch's tables if destroy_process_group() has emptied them."""
        if self._open:
            group_registry.enter(self, self._ranks)
        return self

    @property
    def ranks(self) -> list[int]:
        """What errors and torch.distributed's functions call ranks 0..size-1; by default, and after commit(), that."""
        return list(self._ranks)

    @property
    def own_store(self) -> dist.Store:
        """The part of the store that is this group's alone; ranks may keep what they like in it."""
        return self._own_store

    @property
    def timeout(self) -> timedelta:
        """The limit of operations that name none."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Another limit of operations that name none, on this rank; also after commit()."""
        self._timeout = limited(timeout, f"group {self.group_desc!r}")
        super().set_timeout(self._timeout)

    @property
    def closed(self) -> bool:
        """Whether close() was called on this rank."""
        return not self._open

    def _check_open(self, what: str) -> None:
        """RuntimeError if close() was called on this rank, or if this is a forked child of it."""
        check_not_forked(self._process, what, self.group_desc)
        if not self._open:
            raise RuntimeError(f"customccl: {what} of group {self.group_desc!r}, which was closed on this rank")

    def subgroup(self, ranks: Sequence[int], name: str | None = None) -> Group | None:
        """A group of some ranks of this one, in the order given; None on ranks that are not among them.

        Collective over `ranks` alone. Groups over the same ranks stay apart. No new sockets, nor memory mapped anew.
        """
        self._check_open("subgroup()")
        members = [self._checked(rank, "ranks") for rank in listed(ranks, "ranks")]
        if not members or len(set(members)) != len(members):
            raise ValueError(f"customccl: a subgroup of ranks {members} makes no sense")
        if self.rank() not in members:
            return None
        check_group(0, 1, name or self.group_desc, None)
        return self._part(members, name or "", name or f"{self.group_desc}/{'-'.join(map(str, members))}")

    def _part(self, members: Sequence[int], place: str, label: str) -> Group:
        store = dist.PrefixStore(f"sub/{self._era}/{'-'.join(map(str, members))}/{place}", self._own_store)
        known, ranks = attendance_of(self._backend, members), [self._ranks[each] for each in members]
        return _meet(store, members.index(self.rank()), label, self._timeout, ranks, known)

    def split(self, color: int | None, key: int = 0, name: str | None = None) -> Group | None:
        """Groups of the ranks that gave the same color, in the order of (key, rank); None for color None.

        Collective over the whole group.
        """
        check_group(0, 1, name or self.group_desc, None)
        own = [color is not None, 0 if color is None else integer(color, "color", 64), integer(key, "key", 64)]
        colors = torch.empty(3 * self.size(), dtype=torch.int64, device="cpu")
        self.all_gather_into_tensor(colors, torch.tensor(own, dtype=torch.int64, device="cpu"))
        if color is None:
            return None
        rows = colors.view(-1, 3).tolist()
        same = [rank for _, rank in sorted((row[2], rank) for rank, row in enumerate(rows) if row[:2] == own[:2])]
        return self._part(same, name or f"color {own[1]}", name or f"{self.group_desc}/{own[1]}")

    @property
    def members(self) -> list[str]:
        """The names of the members, by rank: "0", "1", ... until commit() changes them."""
        return list(self._members)

    @property
    def membership(self) -> int:
        """Counts the memberships that this group has had, this one included."""
        return self._epoch

    def prepare(self, members: Sequence[str], *, timeout: timedelta | None = None) -> Change:
        """Begins to meet `members` (names, in the order of their new ranks) in the background; the group goes on.

        Every present member that stays calls it, and every new one join_group(), with the same list. A present member
        that is not in the list may call it, or close(). `timeout`: for all to come, the group's by default; the end of
        a present member ends it at once. Only one membership is prepared at a time: another call with the same list
        goes on with it, now with this `timeout`, and one with another list, or after a failure, begins anew.
        Raises RuntimeError on a rank that the group has gone on without.
        """
        self._check_open("prepare()")
        names = check_members(members, self.group_desc)
        limit = self._timeout if timeout is None else limited(timeout, "prepare()")
        if self._reconfigurations:
            raise RuntimeError(f"customccl: group {self.group_desc!r} was reconfigured: only reconfigure() changes it")
        if self._change is not None and self._change.goes_on(names, limit):
            return self._change
        if self._me in names:
            group_epochs.check_not_stale(self._own_store, self._epoch, self._me, self.group_desc)
        if self._change is not None:
            self._change.drop()
        known = attendance_of(self._backend, group_deaths.places(names, self._members))
        self._change = Change(self._own_store, self.group_desc, self._epoch + 1, names, self._me, limit, known)
        return self._change

    def commit(self) -> None:
        """From here on the group has the members that prepare() was given; waits until they are there.

        Every member calls it at the same place in the order of the group's operations. Operations that this rank has
        begun end first, in the old membership; messages that were sent and not received are lost with it. On a rank
        that is not among the new members it closes the group. After an interrupt (Ctrl-C) it may be called again.
        Raises what prepare() met with: then nothing has changed, and prepare() begins anew.
        """
        if (change := self._change) and change.leaves and not self._open:
            self.close()  # in a call before this one an interrupt came meanwhile
            return
        self._check_open("commit()")
        if change is None:
            raise RuntimeError(f"customccl: commit() of group {self.group_desc!r} without prepare()")
        try:
            change.wait()
            drain(self._backend, self._timeout, self.group_desc)
            backend = change.take()
        except Exception:
            self._change = None
            change.drop()
            raise
        self._go_on(backend, change)
        self._change = None  # not before: after an interrupt all of it is done again

    def _go_on(self, backend: Any, change: Change) -> None:
        if change.leaves:
            self.close()
            return
        old = self._backend
        self._install(backend)  # type: ignore[attr-defined]
        self._use(backend, change.members)
        self._ranks, self._epoch, self._era = list(range(self.size())), change.epoch, str(change.epoch)
        group_registry.enter(self, self._ranks)
        group_epochs.publish(self._own_store, self._epoch)
        if old is not backend:
            old.shutdown()

    def _use(self, backend: Any, members: list[str]) -> None:
        self._backend, self._members = backend, members
        self._met = backend, members  # in one step, for threads that need to know both
        self._direct = getattr(backend, "all_reduce", None)  # gloo's has none
        super().set_timeout(self._timeout)  # its members may have met under another

    def reconfigure(self, opts: Any) -> Any:
        """torch's own way to other members, from torch 2.14 on, which needs no store in common.

        What torch.distributed._reconfigure(uuid, handles, group) calls, with get_reconfigure_handle() of every member.
        Returns a finished Work; raises with nothing changed when a member does not come. Members are then named by
        their ranks, and prepare() refuses.
        """
        if not hasattr(dist.ProcessGroup, "reconfigure"):
            raise NotImplementedError(
                f"customccl: torch {torch.__version__} has no reconfigure, 2.14 has; use prepare() and commit()"
            )
        work = super().reconfigure(opts)  # type: ignore[misc]
        if self._change is not None:
            self._change.drop()
        self._change, self._epoch, self._era = None, self._epoch + 1, f"uuid {opts.uuid}"
        self._reconfigurations += 1
        self._ranks = list(range(self.size()))
        self._members, self._me = [str(rank) for rank in self._ranks], str(self.rank())
        group_registry.enter(self, self._ranks)
        return work

    def close(self) -> None:
        """Leaves the group, without waiting. What is not done ends with an error. A second call does nothing."""
        if self._ended:
            return
        self._open = False
        if self._change is not None:
            self._change.drop()
        group_registry.forget(self)
        self.shutdown()
        self._change, self._ended = None, True  # not before: after an interrupt all of it is done again

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Group {self.group_desc!r}: rank {self.rank()} of {self.size()}{'' if self._open else ', closed'}>"


def _meet(store: dist.Store, rank: int, name: str, limit: timedelta, ranks: Sequence[int], known: Any = None) -> Group:
    keys = own_keys(store, rank)
    backend = meet(keys, rank, len(ranks), limit, name=name, global_ranks=ranks, attendance=known)
    names = [str(member) for member in range(len(ranks))]
    return Group(keys.part, name, limit, backend, names, names[rank], ranks=ranks)
