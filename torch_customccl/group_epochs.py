"""Which membership of a group is the present one, as its members keep it in the group's store."""

import torch.distributed as dist

_EPOCH = "membership"  # the latest that anybody has committed


def latest(store: dist.Store) -> int:
    """The latest membership that a rank has committed; 1 if none has."""
    return int(store.get(_EPOCH)) if store.check([_EPOCH]) else 1


def publish(store: dist.Store, epoch: int) -> None:
    """Tells that `epoch` is committed. A rank that is slow takes nothing back that others have told meanwhile."""
    told = ""  # as if nobody had told any; where that is wrong, compare_set() gives what is there
    while int(told or 0) < epoch:
        told = store.compare_set(_EPOCH, told, str(epoch)).decode()


def check_not_stale(store: dist.Store, epoch: int, me: str, group_name: str) -> None:
    """RuntimeError for a rank that the others have left behind."""
    now = latest(store)
    if now > epoch:
        raise RuntimeError(
            f"customccl: {me!r} is of membership {epoch} of group {group_name!r}, which is at {now} without it. Close "
            "this group and join_group() under a new name"
        )
