"""Collectives of Python objects and coalesced collectives, which torch builds from the ops of the backend."""

from __future__ import annotations

import torch
import torch.distributed as dist
from harness.guarded import assert_same_bits
from harness.oracle import SUM, bits, operand, reduced


def thing(rank: int) -> dict[str, object]:
    """An object of another size for every rank."""
    return {"rank": rank, "text": "x" * (10 ** (rank + 1)), "tensor": torch.arange(rank)}


def same(left: dict[str, object], right: dict[str, object]) -> bool:
    return str(left) == str(right)


def test_objects_of_different_size_travel_in_every_object_collective(ranks):
    def body(rank, size):
        gathered = [None] * size
        dist.all_gather_object(gathered, thing(rank))
        assert all(same(each, thing(source)) for source, each in enumerate(gathered))
        gathered = [None] * size if rank == 1 else None
        dist.gather_object(thing(rank), gathered, dst=1)
        assert all(same(each, thing(source)) for source, each in enumerate(gathered or []))
        shared = [thing(2), 7] if rank == 2 else [None, None]
        dist.broadcast_object_list(shared, src=2)
        assert same(shared[0], thing(2)) and shared[1] == 7
        mine = [None]
        dist.scatter_object_list(mine, [thing(to) for to in range(size)] if rank == 0 else None, src=0)
        assert same(mine[0], thing(rank))
        if rank == 0:
            dist.send_object_list([thing(5)], dst=1)
        if rank == 1:
            dist.recv_object_list(mine, src=0)
            assert same(mine[0], thing(5))

    ranks(3).run(body)


def test_coalesced_collectives_give_what_single_ones_give(ranks):
    def body(rank, size):
        counts = (5, 3000, 200_001)
        values = [operand(rank, count, torch.float32, SUM, size) for count in counts]
        with dist._coalescing_manager(async_ops=True) as manager:
            for value in values:
                dist.all_reduce(value)
        manager.wait()
        for count, value in zip(counts, values, strict=True):
            assert_same_bits(value, reduced(range(size), count, torch.float32, SUM, size), f"all_reduce of {count}")
        outputs = [torch.zeros(size * count) for count in counts]
        with dist._coalescing_manager():
            for count, output in zip(counts, outputs, strict=True):
                dist.all_gather_into_tensor(output, bits(rank, count, torch.float32))
        for count, output in zip(counts, outputs, strict=True):
            expected = torch.cat([bits(each, count, torch.float32) for each in range(size)])
            assert_same_bits(output, expected, f"all_gather of {count}")
        parts = [torch.zeros(count) for count in counts]
        with dist._coalescing_manager():
            for count, part in zip(counts, parts, strict=True):
                dist.reduce_scatter_tensor(part, operand(rank, size * count, torch.float32, SUM, size))
        for count, part in zip(counts, parts, strict=True):
            whole = reduced(range(size), size * count, torch.float32, SUM, size)
            assert_same_bits(part, whole[rank * count : (rank + 1) * count], f"reduce_scatter of {count}")

    ranks(2).run(body)


def test_what_many_coalesced_operations_keep_grows_with_their_number_and_not_with_its_square(ranks):
    def body(rank, size):
        values = [torch.ones(2) for _ in range(100)]
        if rank == 1:
            dist.recv(torch.empty(1), 0)
        work = dist.all_reduce_coalesced(values, async_op=True)
        if rank == 0:
            holders = torch._C._storage_Use_Count(values[0].untyped_storage()._cdata)
            assert holders < 10, f"the memory of one of {len(values)} tensors is held {holders} times"
            dist.send(torch.empty(1), 1)
        work.wait()
        assert all(value.eq(2).all() for value in values)

    ranks(2).run(body)
