"""Makes backends: for the groups torch makes by name, and for groups outside its global world."""

import contextlib
import copy
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from torch_customccl import _ddp_buckets
from torch_customccl._fallback import over_gloo
from torch_customccl._loader import shim
from torch_customccl._own_groups import backend_of_world
from torch_customccl.group_arguments import checked_store, checked_timeout
from torch_customccl.group_store import poll


def create(group: Any, options: Any) -> Any:
    """The creator that torch calls, once per group, on every member.

    group: torch's _DistributedBackendOptions (store, rank, size, timeout, name, global ranks).
    options: a torch_customccl.Options; None, or the options of another backend of the same group, mean the defaults.
    Raises RuntimeError if this installation has no shim for the torch that is running.
    """
    ranks = list(group.global_ranks_in_group)  # empty for the default group
    if getattr(group, "enable_reconfigure", False):  # torch 2.14 and later
        options = _deferred(options)
    return make_backend(
        group.store,
        group.group_rank,
        group.group_size,
        group.timeout,
        name=group.group_id,
        global_ranks=ranks,
        options=options,
        attendance=attendance_of(backend_of_world(), ranks) if ranks else None,
    )


def make_backend(
    store: dist.Store,
    rank: int,
    size: int,
    timeout: timedelta,
    *,
    name: str = "",
    global_ranks: Sequence[int] = (),
    options: Any = None,
    attendance: Any = None,
) -> Any:
    """A backend for `size` ranks that meet in `store`; this process is `rank`. Needs no init_process_group.

    timeout: limit of the set-up and of every operation that names none.
    global_ranks: what error messages call ranks 0..size-1; by default just that.
    attendance: as in meet().
    """
    checked_timeout(timeout, f"group {name!r}")
    return meet(
        own_keys(store, rank),
        rank,
        size,
        timeout,
        name=name,
        global_ranks=global_ranks,
        options=options,
        attendance=attendance,
    )


def meet(
    keys: Any,
    rank: int,
    size: int,
    timeout: timedelta,
    *,
    name: str,
    global_ranks: Sequence[int],
    options: Any = None,
    attendance: Any = None,
) -> Any:
    """make_backend() where `keys`, the shim's GroupKeys, say: its `part` is where they met, afterwards.

    attendance: the shim's Attendance, by which it ends before its limit.
    """
    module = shim()
    ours = options if isinstance(options, module.Options) else None
    world = list(global_ranks) or list(range(size))
    try:
        backend = module.create_backend(keys, rank, size, timeout, name, world, ours, attendance)
    except dist.DistNetworkError as error:  # raised on every rank of the group, or on none
        return over_gloo(keys.part, rank, timeout, name, world, str(error))
    _clean_up(keys.part, rank)
    _ddp_buckets.offer()
    return backend


def create_group(
    store: dist.Store, rank: int, world_size: int, timeout: timedelta, device: torch.device, **kwargs: Any
) -> dist.ProcessGroup:
    """The factory of torch.distributed._dist2: a ProcessGroup that torch's global world knows nothing of.

    Keywords: `options`, a torch_customccl.Options; `group_name`, for messages.
    """
    options = kwargs.pop("options", None)
    name = kwargs.pop("group_name", "")
    if kwargs:
        raise TypeError(f"customccl: unknown arguments {sorted(kwargs)}; known: options, group_name")
    if device.type != "cpu":
        raise ValueError(f"customccl serves CPU tensors; a group for device {device} cannot be made")
    backend = make_backend(store, rank, world_size, timeout, name=name, options=options)
    group = dist.ProcessGroup(store, rank, world_size)
    group._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.CUSTOM, backend)
    return group


def attendance_of(known: Any, members: Sequence[int]) -> Any:
    """The shim's Attendance for a group whose rank r is rank members[r] of `known`, a backend; -1: none there.

    Then a meeting ends at once when one of them has died or left `known`. Of other backends nothing is known.
    """
    module = shim()
    return module.Attendance(known, members) if isinstance(known, module.CustomBackend) else module.Attendance()


def drain(backend: Any, limit: timedelta, group_name: str) -> None:
    """Ends the operations that this rank has begun. gloo's end on threads of its own."""
    ends = getattr(backend, "drain", None)
    if ends is not None and not ends(limit):
        raise dist.DistBackendError(f"customccl: operations of group {group_name!r} did not end within {limit}")


def own_keys(store: dist.Store, rank: int) -> Any:
    """The shim's GroupKeys of the next group in `store`: a part of it that no earlier group used."""
    return shim().GroupKeys(checked_store(store), rank)  # of None it would be C++'s null pointer


def latest_keys(store: dist.Store, timeout: timedelta, name: str) -> dist.Store:
    """The part of `store` that the group made there last has, for a process that has not made it. Waits for one."""
    count = "groups_of_rank/0"  # csrc/c10d/group_keys.h
    if poll(lambda: store.check([count]) or None, timeout) is None:
        raise dist.DistStoreError(
            f"customccl: there is no group {name!r} in this store, and none came within {timeout.total_seconds():g} s. "
            "Its first members make it with create_group(): check the name, and that they use the same store"
        )
    return dist.PrefixStore(f"{store.add(count, 0)}", store)


def _deferred(options: Any) -> Any:
    """Options for a group that meets nobody until reconfigure()."""
    kind = shim().Options
    own = copy.copy(options) if isinstance(options, kind) else kind()
    own.enable_reconfigure = True
    return own


def _clean_up(keys: dist.Store, rank: int) -> None:
    """Groups come and go, the store stays: a group that all ranks have joined needs its records no more."""
    # Some stores cannot delete. The group works whatever becomes of the record.
    with contextlib.suppress(RuntimeError, NotImplementedError):
        keys.delete_key(f"rank/{rank}")
