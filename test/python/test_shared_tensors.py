"""Tensors that the backend allocated: peers read and write them where they lie, while their rank is in an operation."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist
from harness import worker
from harness.oracle import SUM, operand, reduced
from harness.rank import error_of, init_group

COUNTS = (20_000, 300_001, 1_500_016)  # less than a slot of staging, more, and several
PAGE = 1024  # elements of float32


def shared(count: int) -> torch.Tensor:
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    return backend.allocate_tensor(count, dtype=torch.float32, device=torch.device("cpu"))


@pytest.mark.parametrize("who", ["all ranks", "rank 1"])
def test_every_op_that_reads_them_is_right_while_ranks_overwrite_them_at_once(ranks, who):
    def body(rank, size):
        make = shared if who == "all ranks" or rank == 1 else torch.empty
        for count in COUNTS:
            everyone = range(size)
            inputs = [operand(each, count, torch.float32, SUM, size) for each in everyone]
            total = reduced(everyone, count, torch.float32, SUM, size)

            def filled(values: torch.Tensor) -> torch.Tensor:
                return make(values.numel()).copy_(values)

            value = filled(inputs[rank])
            dist.all_reduce(value)
            result = value.clone()
            value.fill_(-1)  # a peer that still reads it gets this
            assert torch.equal(result, total), f"all_reduce of {count}"

            value = filled(inputs[rank])
            dist.reduce(value, dst=1)
            result = value.clone()
            value.fill_(-2)
            assert torch.equal(result, total if rank == 1 else inputs[rank]), f"reduce of {count}"

            value = filled(inputs[rank])
            dist.broadcast(value, src=1)
            result = value.clone()
            value.fill_(-3)
            assert torch.equal(result, inputs[1]), f"broadcast of {count}"

            value, output = filled(inputs[rank]), make(size * count)
            dist.all_gather_into_tensor(output, value)
            value.fill_(-4)
            assert torch.equal(output, torch.cat(inputs)), f"all_gather of {count}"

            blocks = [operand(each + 10, size * count, torch.float32, SUM, size) for each in everyone]
            value, output = filled(blocks[rank]), make(count)
            dist.reduce_scatter_tensor(output, value)
            value.fill_(-5)
            assert torch.equal(output, sum(blocks)[rank * count : (rank + 1) * count]), f"reduce_scatter of {count}"

    ranks(3).run(body)


def test_a_part_of_one_and_one_with_a_factor_and_one_that_is_strided(ranks):
    def body(rank, size):
        count = COUNTS[1]
        whole = shared(2 * count + 3).fill_(rank)
        part = whole[3 : 3 + count]
        dist.all_reduce(part)
        assert bool((part == sum(range(size))).all()) and bool((whole[:3] == rank).all())
        assert bool((whole[3 + count :] == rank).all())
        pages = shared(4 * PAGE + count).fill_(rank)
        dist.all_reduce(pages[PAGE : PAGE + count // PAGE * PAGE])  # from page to page
        assert bool((pages[PAGE : PAGE + count // PAGE * PAGE] == sum(range(size))).all())
        assert bool((pages[:PAGE] == rank).all()) and bool((pages[PAGE + count // PAGE * PAGE :] == rank).all())
        dist.all_reduce(whole[::2], op=dist._make_nccl_premul_sum(0.5))
        factor = whole[1::2].clone()
        assert bool((whole[4 : 3 + count : 2] == 0.5 * size * sum(range(size))).all())
        dist.barrier()
        assert torch.equal(whole[1::2], factor)

    ranks(2).run(body)


def test_after_a_failure_they_are_as_they_were_and_serve_the_next_group(ranks):
    def body(rank, size):
        init_group(rank, size, worker.seat.store(), 0.5)
        count = COUNTS[1]
        tensor = shared(count).copy_(operand(rank, count, torch.float32, SUM, size))
        late = dist.PrefixStore("late", worker.seat.store())
        if rank == 1:
            late.wait(["timed out"])
        failure = error_of(dist.all_reduce, tensor)
        if rank == 0:
            late.set("timed out", "")
            late.wait(["wrote"])
            assert "0.5 s" in failure.text or "500 ms" in failure.text, failure
            assert torch.equal(tensor, operand(rank, count, torch.float32, SUM, size))
        late.set("wrote" if rank == 1 else "looked", "")
        late.wait(["looked"])
        dist.destroy_process_group()
        init_group(rank, size, dist.PrefixStore("next", worker.seat.store()), 20)
        for value in (tensor, shared(count)):
            value.copy_(operand(rank, count, torch.float32, SUM, size))
            dist.all_reduce(value)
            assert torch.equal(value, reduced(range(size), count, torch.float32, SUM, size))

    ranks(2, fresh=True, init=False).run(body)


def test_a_forked_child_has_them_for_itself(ranks):
    def body(rank, size):
        tensor = shared(COUNTS[1]).fill_(rank)
        child = os.fork()
        if child == 0:
            seen = bool((tensor == rank).all())
            tensor.fill_(-1)
            os._exit(0 if seen and bool((tensor == -1).all()) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert bool((tensor == rank).all())
        dist.all_reduce(tensor)
        assert bool((tensor == sum(range(size))).all())

    ranks(2).run(body)


def test_a_freed_ones_memory_serves_the_next_and_is_counted(ranks):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        tensor = shared(COUNTS[1])
        place, before = tensor.data_ptr(), backend.memory_stats()
        del tensor
        waiting = backend.memory_stats()
        assert waiting["arena_bytes_waiting"] - before["arena_bytes_waiting"] == (COUNTS[1] * 4 + 4095) // 4096 * 4096
        assert waiting["arena_bytes_in_use"] == before["arena_bytes_in_use"]
        assert shared(COUNTS[1]).data_ptr() == place

    ranks(2).run(body)


def test_they_are_on_the_cpu_alone(ranks):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend.supports_tensor_alloc(torch.device("cpu"))
        assert not backend.supports_tensor_alloc(torch.device("cuda", 0))
        failure = error_of(backend.allocate_tensor, 8, dtype=torch.float32, device=torch.device("cuda", 0))
        assert failure.is_a("ValueError") and "cuda:0" in failure.text, failure

    ranks(2).run(body)


def test_more_elements_than_there_is_memory_are_refused(ranks):
    def body(rank, size):
        for count in (2**62, 2**63 - 1, 2**61 + 1, 2**60):
            failure = error_of(shared, count)
            assert failure.is_a("RuntimeError") or failure.is_a("ValueError"), failure
        failure = error_of(shared, 2**62)
        assert failure.is_a("ValueError") and str(2**62) in failure.text, failure

    ranks(2).run(body)


def test_one_that_is_emptied_or_grows_goes_on_elsewhere(ranks):
    def body(rank, size):
        tensor = shared(COUNTS[1]).fill_(1.0 + rank)
        kept = tensor.clone()
        tensor.resize_(2 * COUNTS[1])
        assert torch.equal(tensor[: COUNTS[1]], kept)
        dist.all_reduce(tensor[: COUNTS[1]])
        assert torch.equal(tensor[: COUNTS[1]], torch.full_like(kept, 3.0))
        emptied = shared(COUNTS[1]).untyped_storage()
        emptied.resize_(0)
        emptied.resize_(100)
        assert emptied.nbytes() == 100

    ranks(2).run(body)
