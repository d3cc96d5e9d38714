"""all_reduce of sparse (COO) tensors: the sum, in the tensor, the Work and its future; different shapes are refused."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from harness.rank import error_of, group_works
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile


def sparse_of(rank: int, rows: int, width: int) -> torch.Tensor:
    """`rank` + 1 entries, two of them at the same place, values that differ by rank and place."""
    places = [(3 * i + rank) % rows for i in range(rank + 1)]
    places.append(places[0])
    values = torch.arange(float(len(places) * width)).reshape(len(places), width) + 100 * rank
    return torch.sparse_coo_tensor([places], values, (rows, width))


@pytest.mark.parametrize("size", [2, 3])
def test_the_sum_is_in_the_tensor_the_work_and_the_future(ranks, size):
    def body(rank, size):
        for rows, width in ((5, 1), (11, 7), (1000, 64)):
            wanted = sum(sparse_of(each, rows, width).to_dense() for each in range(size))
            value = sparse_of(rank, rows, width)
            dist.all_reduce(value)
            assert torch.equal(value.to_dense(), wanted)
            value = sparse_of(rank, rows, width)
            work = dist.all_reduce(value, async_op=True)
            (given,) = work.get_future().wait()
            assert given.is_sparse and torch.equal(given.to_dense(), wanted)
            (given,) = work.result()
            assert torch.equal(given.to_dense(), wanted) and work.is_success()

    ranks(size).run(body)


def test_the_profiler_sees_it(ranks):
    def body(rank, size):
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            dist.all_reduce(sparse_of(rank, 5, 2))
        return [event.name for event in profiled.events() if event.name.startswith("customccl")]

    for names in ranks(2).run(body):
        assert names == ["customccl:sparse_all_reduce"]


def test_ranks_without_entries_take_part(ranks):
    def body(rank, size):
        empty = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (4, 2))
        value = empty.clone() if rank != 1 else torch.sparse_coo_tensor([[3]], [[1.0, 2.0]], (4, 2))
        dist.all_reduce(value)
        assert value.to_dense().tolist() == [[0, 0], [0, 0], [0, 0], [1, 2]]
        nothing = empty.clone()
        dist.all_reduce(nothing)
        assert nothing._nnz() == 0

    ranks(3).run(body)


def test_shapes_that_differ_are_an_error_on_every_rank_and_the_group_goes_on(ranks):
    def body(rank, size):
        entry = torch.sparse_coo_tensor([[2]], [1.0], (9,))
        different = {
            "sizes": torch.sparse_coo_tensor([[2]], [1.0], (3,)),
            "dimensions": torch.sparse_coo_tensor([[2], [0]], [1.0], (9, 1)),
            "dense dimensions": torch.sparse_coo_tensor([[2]], [[1.0]], (9, 1)),
        }
        for case, other in different.items():
            failure = error_of(dist.all_reduce, entry.clone() if rank != 1 else other)
            assert failure.is_a("DistBackendError"), f"{case}: {failure}"
            assert "rank 0 gave sizes [9]" in failure.text and "rank 1 gave sizes" in failure.text, failure.text
            group_works(case=case)
        assert torch.equal(entry.to_dense(), torch.eye(9)[2])

    ranks(3).run(body)


def test_a_rank_that_flushes_denormals_gets_the_bits_of_the_others(ranks):
    def body(rank, size):
        torch.set_flush_denormal(rank == 1)
        smallest = torch.tensor([1, 2, 3], dtype=torch.int32).view(torch.float32)
        value = torch.sparse_coo_tensor([[0, 2, 4]], smallest, (5,))
        dist.all_reduce(value)
        torch.set_flush_denormal(False)
        assert value.to_dense().view(torch.int32).tolist() == [size, 0, 2 * size, 0, 3 * size]

    ranks(3).run(body)


def test_ddp_sums_sparse_gradients(ranks):
    def body(rank, size):
        torch.manual_seed(0)
        table = DistributedDataParallel(nn.EmbeddingBag(10, 3, sparse=True, mode="sum"))
        table(torch.tensor([[rank, 5]])).sum().backward()
        wanted = torch.zeros(10, 3)
        wanted[:size] = 1 / size
        wanted[5] = 1.0
        assert table.module.weight.grad.is_sparse
        torch.testing.assert_close(table.module.weight.grad.to_dense(), wanted)

    ranks(2).run(body)
