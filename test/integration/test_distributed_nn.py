"""torch.distributed.nn.functional: collectives with gradients. The loss is the sum over ranks of what each computes."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collectives
from torch import Tensor


def part(rank: int) -> Tensor:
    return torch.arange(1, 7, dtype=torch.float64) * (rank + 1)


def weight(rank: int) -> Tensor:
    """The gradient of this rank's loss with respect to what the collective gave it."""
    return torch.arange(1, 7, dtype=torch.float64).sin() + rank


def total(size: int) -> Tensor:
    return torch.stack([weight(rank) for rank in range(size)]).sum(0)


def test_all_reduce_and_broadcast(ranks):
    def body(rank, size):
        x = part(rank).requires_grad_()
        y = collectives.all_reduce(x.clone())
        torch.testing.assert_close(y, torch.stack([part(r) for r in range(size)]).sum(0))
        (y * weight(rank)).sum().backward()
        torch.testing.assert_close(x.grad, total(size))

        x = part(rank).requires_grad_()
        y = collectives.broadcast(x.clone(), src=1)
        assert torch.equal(y, part(1))
        (y * weight(rank)).sum().backward()
        torch.testing.assert_close(x.grad, total(size) if rank == 1 else torch.zeros(6, dtype=torch.float64))

    ranks(3).run(body)


def test_all_gather_and_reduce_scatter(ranks):
    def body(rank, size):
        x = part(rank).requires_grad_()
        everyone = collectives.all_gather(x)
        assert torch.equal(torch.stack(everyone), torch.stack([part(r) for r in range(size)]))
        sum((y * weight(rank) * (k + 1)).sum() for k, y in enumerate(everyone)).backward()
        torch.testing.assert_close(x.grad, total(size) * (rank + 1))

        inputs = [(part(rank) + k).requires_grad_() for k in range(size)]
        y = collectives.reduce_scatter(torch.empty(6, dtype=torch.float64), inputs)
        torch.testing.assert_close(y, torch.stack([part(r) + rank for r in range(size)]).sum(0))
        (y * weight(rank)).sum().backward()
        for k, x in enumerate(inputs):
            torch.testing.assert_close(x.grad, weight(k))

    ranks(3).run(body)


def test_all_to_all(ranks):
    def body(rank, size):
        inputs = [(part(rank) * 10**k).requires_grad_() for k in range(size)]
        outputs = collectives.all_to_all([torch.empty(6, dtype=torch.float64) for _ in range(size)], inputs)
        for k, y in enumerate(outputs):
            torch.testing.assert_close(y, part(k) * 10**rank)
        sum((y * weight(rank) * (k + 1)).sum() for k, y in enumerate(outputs)).backward()
        for k, x in enumerate(inputs):
            torch.testing.assert_close(x.grad, weight(k) * (rank + 1))

        x = part(rank).requires_grad_()
        y = collectives.all_to_all_single(torch.empty(6, dtype=torch.float64), x)
        assert torch.equal(y, torch.cat([part(r).chunk(size)[rank] for r in range(size)]))
        (y * weight(rank)).sum().backward()
        torch.testing.assert_close(x.grad, torch.cat([weight(r).chunk(size)[rank] for r in range(size)]))

    ranks(3).run(body)


def test_gather_and_scatter(ranks):
    def body(rank, size):
        x = part(rank).requires_grad_()
        everyone = collectives.gather(x, dst=0)
        if rank == 0:
            assert torch.equal(torch.stack(list(everyone)), torch.stack([part(r) for r in range(size)]))
        scale = 1.0 if rank == 0 else 0.0
        sum((y * (k + 1)).sum() * scale for k, y in enumerate(everyone)).backward()
        torch.testing.assert_close(x.grad, torch.full((6,), rank + 1.0, dtype=torch.float64))

        inputs = [(part(k)).requires_grad_() for k in range(size)]
        y = collectives.scatter(inputs, src=0)
        assert torch.equal(y, part(rank))
        (y * weight(rank)).sum().backward()
        if rank == 0:
            for k, x in enumerate(inputs):
                torch.testing.assert_close(x.grad, weight(k))
        dist.barrier()

    ranks(3).run(body)
