"""DeviceMesh: groups along each dimension of a mesh, and slices of it."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh


def sum_over(group) -> float:
    value = torch.tensor([10.0 ** dist.get_rank()])
    dist.all_reduce(value, group=group)
    return value.item()


def test_one_dimension_is_the_whole_world(ranks):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("all",))
        assert mesh.get_local_rank() == rank and mesh["all"].size() == size
        assert sum_over(mesh.get_group()) == 111

    ranks(3).run(body)


def test_rows_and_columns_of_two_dimensions(ranks):
    def body(rank, size):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("row", "column"))
        row, column = divmod(rank, 2)
        assert list(mesh.get_coordinate()) == [row, column]
        assert sum_over(mesh["column"].get_group()) == 10.0 ** (2 * row) + 10.0 ** (2 * row + 1)
        assert sum_over(mesh.get_group("row")) == 10.0**column + 10.0 ** (2 + column)
        assert sum_over(mesh["row", "column"]._flatten("both").get_group()) == 1111

    ranks(4).run(body)


def test_a_mesh_from_groups_that_exist(ranks):
    def body(rank, size):
        group = dist.new_group()
        mesh = DeviceMesh.from_group(group, "cpu")
        assert mesh.get_group() is group
        assert sum_over(mesh.get_group()) == 11

    ranks(2).run(body)
