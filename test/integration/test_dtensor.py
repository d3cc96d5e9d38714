"""DTensor: every change of placement gives the same logical tensor."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

SHAPE = (5, 7)  # no number of ranks divides it


def whole() -> torch.Tensor:
    return torch.arange(35, dtype=torch.float64).reshape(SHAPE) ** 2 + 1


def place(mesh, placements) -> DTensor:
    """`whole()` in these placements; the ranks of a Partial hold different parts of the sum."""
    plain = [Replicate() if placement.is_partial() else placement for placement in placements]
    tensor = distribute_tensor(whole(), mesh, plain)
    local = tensor.to_local().clone()
    for dimension, placement in enumerate(placements):
        if placement.is_partial():
            part, parts = mesh.get_local_rank(dimension) + 1, mesh.size(dimension)
            local *= part / (parts * (parts + 1) / 2)
    return DTensor.from_local(local, mesh, placements, shape=whole().shape, stride=whole().stride())


KEPT = [Replicate(), Shard(0), Shard(1)]  # what torch lets users ask for
HELD = [*KEPT, Partial()]  # what a computation may leave


@pytest.mark.parametrize("size", [2, 3])
def test_every_change_of_placement_keeps_the_tensor(ranks, size):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (size,))
        for old, new in itertools.product(HELD, KEPT):
            moved = place(mesh, [old]).redistribute(mesh, [new])
            assert moved.placements == (new,)
            torch.testing.assert_close(moved.full_tensor(), whole(), rtol=1e-12, atol=0, msg=f"{old} to {new}")

    ranks(size).run(body)


def test_every_change_of_placement_on_a_mesh_of_two_dimensions(ranks):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (2, 2))
        pairs = [list(itertools.product(placements, repeat=2)) for placements in (HELD, KEPT)]
        for old, new in itertools.product(*pairs):
            moved = place(mesh, old).redistribute(mesh, new)
            torch.testing.assert_close(moved.full_tensor(), whole(), rtol=1e-12, atol=0, msg=f"{old} to {new}")

    ranks(4).run(body)


@pytest.mark.parametrize("operation", ["avg", "max", "min", "sum"])
def test_partial_tensors_of_every_reduction(ranks, operation):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (size,))
        parts = [whole() * (other + 1) * (-1) ** other for other in range(size)]
        stacked = torch.stack(parts)
        wanted = {"sum": stacked.sum(0), "avg": stacked.mean(0), "max": stacked.amax(0), "min": stacked.amin(0)}
        tensor = DTensor.from_local(parts[rank], mesh, [Partial(operation)])
        for placement in (Replicate(), Shard(0), Shard(1)):
            result = tensor.redistribute(mesh, [placement]).full_tensor()
            torch.testing.assert_close(result, wanted[operation], rtol=1e-12, atol=0)

    ranks(3).run(body)


def test_a_product_of_matrices_and_its_gradients(ranks):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (size,))
        left, right = whole(), whole().T.contiguous() / 100
        for a, b in itertools.product(KEPT, repeat=2):
            x = distribute_tensor(left, mesh, [a]).requires_grad_()
            y = distribute_tensor(right, mesh, [b]).requires_grad_()
            plain_x, plain_y = left.clone().requires_grad_(), right.clone().requires_grad_()
            (x @ y).sin().sum().backward()
            (plain_x @ plain_y).sin().sum().backward()
            torch.testing.assert_close(x.grad.full_tensor(), plain_x.grad)
            torch.testing.assert_close(y.grad.full_tensor(), plain_y.grad)

    ranks(2).run(body)
