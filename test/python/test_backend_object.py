"""What the backend's object answers beside operations."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def test_survivors_shrink_a_group_without_the_ranks_they_leave_out(ranks):
    def body(rank, size):
        assert backend().supports_shrinking
        if rank == 1:
            return
        for _ in range(2):
            smaller = backend().shrink([1])
            assert (smaller.rank(), smaller.size()) == (rank // 2, 2)
            value = torch.full((1000,), float(rank))
            smaller.allreduce([value]).wait()
            assert bool((value == 2).all())
            smaller.shutdown()

    ranks(3, fresh=True).run(body)


def test_all_reduce_of_one_tensor(ranks):
    def body(rank, size):
        whole = torch.arange(12.0).reshape(3, 4) + rank
        backend().all_reduce(whole[:, 1])
        assert whole[:, 1].tolist() == [3.0, 11.0, 19.0]
        assert whole[:, 2].tolist() == [2.0 + rank, 6.0 + rank, 10.0 + rank]
        most, halves = torch.tensor([rank, 5 - rank]), torch.full((1000,), 4.0)
        backend().all_reduce(most, dist.ReduceOp.MAX)
        backend().all_reduce(halves, op=dist._make_nccl_premul_sum(0.5))
        assert most.tolist() == [1, 5] and bool((halves == 4).all())
        sparse = torch.sparse_coo_tensor([[rank]], [1.0], (2,))
        backend().all_reduce(sparse)
        assert sparse.to_dense().tolist() == [1.0, 1.0]
        for wrong, reason in ((torch.ones(1).expand(2), "expanded"), (torch.ones(1, device="meta"), "tensor on meta")):
            with pytest.raises(ValueError, match=reason):
                backend().all_reduce(wrong)
        with pytest.raises(dist.DistBackendError, match="rank"):
            backend().all_reduce(torch.ones(1 + rank))

    ranks(2, fresh=True).run(body)


def test_a_tensor_without_memory_is_refused_and_one_without_elements_is_not(ranks):
    def body(rank, size):
        freed = torch.ones(10)[2:]
        freed.untyped_storage().resize_(0)
        with FakeTensorMode():
            fake = torch.ones(8)
        for tensor in (freed, fake):
            for options in (dist.AllreduceOptions(), dist.BroadcastOptions()):
                call = backend().allreduce if isinstance(options, dist.AllreduceOptions) else backend().broadcast
                with pytest.raises(ValueError, match=r"8 elements .* without memory"):
                    call([tensor], options)
        backend().allreduce([torch.ones(5)[5:]]).wait()
        shared = torch.arange(4.0)
        copy = torch._lazy_clone(shared)
        backend().allreduce([copy]).wait()  # writes, so it gets memory of its own
        assert copy.tolist() == [0.0, 2.0, 4.0, 6.0]
        assert shared.tolist() == [0.0, 1.0, 2.0, 3.0]

    ranks(2).run(body)


def test_a_tensor_with_less_memory_than_its_elements_take_is_refused(ranks):
    """torch makes storages smaller below their tensors; a resize_() that fails leaves such a tensor, too."""

    def body(rank, size):
        cut, strided = torch.ones(10)[2:], torch.ones(16)[1::2]
        cut.untyped_storage().resize_(36)
        strided.untyped_storage().resize_(56)
        for tensor in (cut, strided):
            for call in (dist.all_reduce, lambda given: dist.send(given, dst=1 - rank)):
                with pytest.raises(ValueError, match=r"8 elements .* needs a storage of \d+ bytes and has one of"):
                    call(tensor)
        fits = torch.ones(10)[2:]
        fits.untyped_storage().resize_(40)
        dist.all_reduce(fits)
        assert fits.tolist() == [2] * 8
        dist.all_reduce(cut[:7])
        assert cut[:7].tolist() == [2] * 7

    ranks(2).run(body)


@pytest.mark.parametrize("late", [0, 1], ids=["sender late", "receiver late"])
@pytest.mark.parametrize("count", [3, 1_000_000])
def test_what_a_receive_gets_is_its_result_and_a_send_has_none(ranks, count, late):
    def body(rank, size):
        tensor = torch.full((count,), 7.0) if rank == 0 else torch.empty(count)
        if rank == late:
            time.sleep(0.05)
        work = dist.isend(tensor, 1) if rank == 0 else dist.irecv(tensor, 0)
        work.wait()
        results = [work.result(), work.get_future().value()]
        if rank == 0:
            assert results == [[], []]
        else:
            assert [[each.data_ptr() for each in result] for result in results] == [[tensor.data_ptr()]] * 2

    ranks(2).run(body)


def test_works_tell_how_long_they_took_and_sequence_numbers_count_collectives(ranks):
    def body(rank, size):
        before = backend()._get_sequence_number_for_group()
        untimed = [dist.all_reduce(torch.ones(count), async_op=True) for count in (1, 100_000)]
        dist.group.WORLD._enable_collectives_timing()
        works = [dist.all_reduce(torch.ones(count), async_op=True) for count in (1, 100_000)]
        for work in untimed + works:
            work.wait()
        if getattr(backend(), "supports_completion_hooks", False):
            works += untimed  # torch 2.15 and later: its recorder asks each Work for its time
        else:
            for work in untimed:
                with pytest.raises(RuntimeError, match="_enable_collectives_timing"):
                    work._get_duration()
        assert all(0 < work._get_duration() < 1e6 for work in works)
        assert backend()._get_sequence_number_for_group() == before + 4

    ranks(2).run(body)


def test_arguments_that_make_no_sense_are_refused(ranks):
    def body(rank, size):
        of_several = dist.BroadcastOptions(), dist.ReduceOptions()
        for options in of_several:
            options.rootTensor = 1  # of several per rank, as once on GPUs
        for call, options in zip((backend().broadcast, backend().reduce), of_several, strict=True):
            with pytest.raises(ValueError, match="got root tensor 1, but each rank gives one tensor"):
                call([torch.ones(2)], options)
        for seconds in (0, -3):
            with pytest.raises(ValueError, match=f"a timeout must be positive, not {1000 * seconds} ms"):
                dist.group.WORLD.split_group([0, 1], timeout=timedelta(seconds=seconds))
        for stranger in (2, -1):
            with pytest.raises(ValueError, match=f"shrink names rank {stranger} of a group of 2"):
                backend().shrink([stranger])
        value = torch.ones(2)
        backend().allreduce([value]).wait()
        assert value.tolist() == [2.0, 2.0]

    ranks(2).run(body)
