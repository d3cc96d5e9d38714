"""Functional collectives: values by formula, gradients, and tensors that wait for themselves."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import _functional_collectives as functional

REDUCTIONS = {
    "sum": lambda parts: parts.sum(0),
    "avg": lambda parts: parts.mean(0),
    "min": lambda parts: parts.amin(0),
    "max": lambda parts: parts.amax(0),
    "product": lambda parts: parts.prod(0),
}


def part(rank: int, rows: int = 6) -> Tensor:
    return torch.arange(rows * 2, dtype=torch.float64).reshape(rows, 2) + 100 * rank + 1


def parts(size: int) -> Tensor:
    return torch.stack([part(rank) for rank in range(size)])


@pytest.mark.parametrize("operation", REDUCTIONS)
def test_reductions(ranks, operation):
    def body(rank, size):
        wanted = REDUCTIONS[operation](parts(size))
        mine = part(rank)
        torch.testing.assert_close(functional.all_reduce(mine, operation, dist.group.WORLD) + 0, wanted)
        assert torch.equal(mine, part(rank)), "the input was changed"
        for dim, wanted_part in ((0, wanted.chunk(size)[rank]), (1, wanted.repeat(1, 3).chunk(size, 1)[rank])):
            source = mine if dim == 0 else mine.repeat(1, 3)
            scattered = functional.reduce_scatter_tensor(source, operation, dim, dist.group.WORLD)
            torch.testing.assert_close(scattered + 0, wanted_part)

    ranks(3).run(body)


def test_movements(ranks):
    def body(rank, size):
        for dim in (0, 1):
            gathered = functional.all_gather_tensor(part(rank), dim, dist.group.WORLD)
            assert torch.equal(gathered + 0, torch.cat(list(parts(size)), dim))
        assert torch.equal(functional.broadcast(part(rank), 1, dist.group.WORLD) + 0, part(1))

        lengths = [1, 2, 3]  # rank r sends 1, 2, 3 rows to ranks 0, 1, 2
        exchanged = functional.all_to_all_single(part(rank), [rank + 1] * size, lengths, dist.group.WORLD)
        assert torch.equal(exchanged + 0, torch.cat([part(other).split(lengths)[rank] for other in range(size)]))

        flat = part(rank).flatten()  # torch counts elements where rows are meant
        shifted = functional.permute_tensor(flat, [(r + 1) % size for r in range(size)], dist.group.WORLD)
        assert torch.equal(shifted + 0, part((rank - 1) % size).flatten())

    ranks(3).run(body)


def test_coalesced(ranks):
    def body(rank, size):
        inputs = [part(rank), part(rank).flatten() * 2, part(rank)[:0]]
        for got, one in zip(
            functional.all_reduce_coalesced(inputs, "sum", dist.group.WORLD), (1, 2, None), strict=True
        ):
            wanted = parts(size).sum(0) * one if one else torch.empty(0, 2, dtype=torch.float64)
            torch.testing.assert_close(got.reshape(wanted.shape) + 0, wanted)
        gathered = functional.all_gather_into_tensor_coalesced(inputs[:2], dist.group.WORLD)
        assert torch.equal(gathered[0] + 0, torch.cat(list(parts(size))))
        scattered = functional.reduce_scatter_tensor_coalesced(inputs[:2], "sum", [0, 0], dist.group.WORLD)
        torch.testing.assert_close(scattered[1] + 0, (parts(size).sum(0).flatten() * 2).chunk(size)[rank])

    ranks(3).run(body)


def test_a_result_waits_when_it_is_used(ranks):
    def body(rank, size):
        results = [functional.all_reduce(part(rank) * k, "sum", dist.group.WORLD) for k in range(20)]
        assert all(isinstance(result, functional.AsyncCollectiveTensor) for result in results)
        assert not results[3].completed
        for k in (7, 3, 19, 0):  # in any order; the rest is never waited for
            torch.testing.assert_close(results[k] * 2, parts(size).sum(0) * 2 * k)
        raw = torch.ops._c10d_functional.all_reduce(part(rank), "sum", dist.group.WORLD.group_name)
        torch.testing.assert_close(torch.ops._c10d_functional.wait_tensor(raw), parts(size).sum(0))
        del results
        dist.barrier()

    ranks(2).run(body)


def test_gradients(ranks):
    def body(rank, size):
        group = dist.group.WORLD
        weight = part(rank) / 7  # another on every rank, so that a gradient of the wrong rank shows
        weights = parts(size) / 7

        x = part(rank).requires_grad_()
        gathered = functional.all_gather_tensor_autograd(x, 0, group)
        (gathered * weights.flatten(0, 1) * (rank + 1)).sum().backward()
        torch.testing.assert_close(x.grad, weight * sum(range(1, size + 1)))

        x = part(rank).requires_grad_()
        scattered = functional.reduce_scatter_tensor_autograd(x, "sum", 0, group)
        (scattered * weights.sum(0).chunk(size)[rank] * (rank + 1)).sum().backward()
        wanted = torch.cat([chunk * (other + 1) for other, chunk in enumerate(weights.sum(0).chunk(size))])
        torch.testing.assert_close(x.grad, wanted)

        x = part(rank).requires_grad_()
        splits = [len(x) // size] * size
        exchanged = functional.all_to_all_single_autograd(x, splits, splits, group)
        (exchanged * weight).sum().backward()
        torch.testing.assert_close(x.grad, torch.cat([w.chunk(size)[rank] for w in weights]))

    ranks(3).run(body)
