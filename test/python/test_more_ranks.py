"""More ranks than cores: every op once with eight ranks, so waiting must give the processor away."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.guarded import Guarded, assert_same_bits
from harness.oracle import AVG, MAX, SUM, bits, operand, reduced

SIZE = 8
COUNTS = (1, 13, 5000, 300_001)


def all_reduce(rank: int, count: int) -> None:
    for op in (SUM, MAX, AVG):
        value = Guarded.holding(operand(rank, count, torch.float32, op, SIZE))
        dist.all_reduce(value.tensor, op=op)
        value.check(reduced(range(SIZE), count, torch.float32, op, SIZE), f"{op} of {count}")


def reduce(rank: int, count: int) -> None:
    value = Guarded.holding(operand(rank, count, torch.float32, SUM, SIZE))
    dist.reduce(value.tensor, dst=5)
    if rank == 5:
        value.check(reduced(range(SIZE), count, torch.float32, SUM, SIZE), f"{count}")
    else:
        value.check_unchanged(f"{count}")


def broadcast(rank: int, count: int) -> None:
    value = Guarded.holding(bits(rank, count, torch.float32))
    dist.broadcast(value.tensor, src=6)
    value.check(bits(6, count, torch.float32), f"{count}")


def all_gather(rank: int, count: int) -> None:
    output = Guarded((SIZE * count,), torch.float32)
    dist.all_gather_into_tensor(output.tensor, bits(rank, count, torch.float32))
    output.check(torch.cat([bits(each, count, torch.float32) for each in range(SIZE)]), f"{count}")


def reduce_scatter(rank: int, count: int) -> None:
    output = Guarded((count,), torch.float32)
    dist.reduce_scatter(output.tensor, [operand(rank, count, torch.float32, SUM, SIZE, to) for to in range(SIZE)])
    output.check(reduced(range(SIZE), count, torch.float32, SUM, SIZE, salt=rank), f"{count}")


def gather_and_scatter(rank: int, count: int) -> None:
    outputs = [torch.zeros(count) for _ in range(SIZE)] if rank == 3 else None
    dist.gather(bits(rank, count, torch.float32), outputs, dst=3)
    for source, output in enumerate(outputs or []):
        assert_same_bits(output, bits(source, count, torch.float32), f"gather of {count}")
    part = Guarded((count,), torch.float32)
    dist.scatter(part.tensor, [bits(4, count, torch.float32, to) for to in range(SIZE)] if rank == 4 else None, src=4)
    part.check(bits(4, count, torch.float32, salt=rank), f"scatter of {count}")


def all_to_all(rank: int, count: int) -> None:
    output = Guarded((SIZE * count,), torch.float32)
    dist.all_to_all_single(output.tensor, torch.cat([bits(rank, count, torch.float32, to) for to in range(SIZE)]))
    output.check(torch.cat([bits(source, count, torch.float32, rank) for source in range(SIZE)]), f"{count}")


def send_and_recv(rank: int, count: int) -> None:
    left, right = (rank - 1) % SIZE, (rank + 1) % SIZE
    output = torch.zeros(count)
    works = [dist.irecv(output, src=left), dist.isend(bits(rank, count, torch.float32), dst=right)]
    for work in works:
        work.wait()
    assert_same_bits(output, bits(left, count, torch.float32), f"{count}")


def barrier(rank: int, count: int) -> None:
    for _ in range(50):
        dist.barrier()


OPS = [
    all_reduce,
    reduce,
    broadcast,
    all_gather,
    reduce_scatter,
    gather_and_scatter,
    all_to_all,
    send_and_recv,
    barrier,
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.__name__)
def test_eight_ranks_on_fewer_cores_get_right_results(ranks, op):
    def body(rank, size):
        for count in COUNTS:
            op(rank, count)

    ranks(SIZE).run(body)
