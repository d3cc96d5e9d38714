"""Python objects through every object collective, also over groups of some ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from harness.rank import subgroup


def thing(rank: int) -> dict[str, object]:
    """Another size on every rank."""
    return {
        "rank": rank,
        "text": "x" * (10**rank),
        "list": [rank] * rank,
        "tensor": torch.full((rank + 1,), float(rank)),
    }


def check(got: object, rank: int) -> None:
    wanted = thing(rank)
    assert isinstance(got, dict) and got.keys() == wanted.keys()
    assert torch.equal(got["tensor"], wanted["tensor"])
    assert all(got[key] == wanted[key] for key in ("rank", "text", "list"))


def test_all_gather_object(ranks):
    def body(rank, size):
        everything = [None] * size
        dist.all_gather_object(everything, thing(rank))
        for other in range(size):
            check(everything[other], other)

    ranks(3).run(body)


def test_gather_object_to_every_root(ranks):
    def body(rank, size):
        for root in range(size):
            everything = [None] * size if rank == root else None
            dist.gather_object(thing(rank), everything, dst=root)
            for other in range(size if rank == root else 0):
                check(everything[other], other)

    ranks(3).run(body)


def test_broadcast_object_list_from_every_root(ranks):
    def body(rank, size):
        for root in range(size):
            objects = [thing(root), "second", 3] if rank == root else [None] * 3
            dist.broadcast_object_list(objects, src=root)
            check(objects[0], root)
            assert objects[1:] == ["second", 3]

    ranks(3).run(body)


def test_scatter_object_list_from_every_root(ranks):
    def body(rank, size):
        for root in range(size):
            mine = [None]
            dist.scatter_object_list(mine, [thing(other) for other in range(size)] if rank == root else None, src=root)
            check(mine[0], rank)

    ranks(3).run(body)


def test_send_and_receive_object_lists(ranks):
    def body(rank, size):
        if rank == 0:
            for other in range(1, size):
                dist.send_object_list([thing(other), other], dst=other)
        else:
            objects = [None, None]
            assert dist.recv_object_list(objects, src=0) == 0
            check(objects[0], rank)
            assert objects[1] == rank

    ranks(3).run(body)


def test_objects_over_a_group_of_some_ranks(ranks):
    def body(rank, size):
        members = [2, 0]
        with subgroup(members) as group:
            if rank not in members:
                return
            everything = [None, None]
            dist.all_gather_object(everything, thing(rank), group=group)
            for position, member in enumerate(sorted(members)):
                check(everything[position], member)
            objects = [thing(2)] if rank == 2 else [None]
            dist.broadcast_object_list(objects, src=2, group=group)
            check(objects[0], 2)

    ranks(3).run(body)
