"""suspend() and resume(): a group that is not needed for a while gives its shared memory back."""

from __future__ import annotations

import contextlib
import os

import torch
import torch.distributed as dist
from harness.rank import error_of, group_works

COUNT = 300_000


def backend():
    return dist.group.WORLD._get_backend(torch.device("cpu"))


def shared_bytes():
    """What the kernel spends on the shared memory of this process."""
    total = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            if "memfd:customccl" in os.readlink(f"/proc/self/fd/{descriptor}"):
                total += os.fstat(int(descriptor)).st_blocks * 512
    return total


def large_sum(rank, size):
    value = torch.full((COUNT,), float(rank + 1))
    dist.all_reduce(value)
    assert bool((value == size * (size + 1) / 2).all())


def test_a_suspended_group_gives_its_memory_back_and_a_resumed_one_works(ranks):
    def body(rank, size):
        large_sum(rank, size)
        full, pages = backend().memory_stats(), shared_bytes()
        assert full["group_staging_bytes"] > 0
        assert full["group_suspended"] == 0
        backend().suspend()
        lean = backend().memory_stats()
        assert (lean["group_staging_bytes"], lean["group_suspended"]) == (0, 1)
        assert full["arena_bytes_in_use"] - lean["arena_bytes_in_use"] == full["group_staging_bytes"]
        assert pages - shared_bytes() == full["group_staging_bytes"]
        backend().resume()
        assert backend().memory_stats() == full
        assert shared_bytes() == pages
        large_sum(rank, size)

    ranks(2, fresh=True).run(body)


def test_operations_on_a_suspended_group_are_refused_and_the_group_goes_on(ranks):
    def body(rank, size):
        ones = torch.ones(3)
        backend().suspend()
        calls = {
            "all_reduce": lambda: dist.all_reduce(ones),
            "all_reduce, asynchronous": lambda: dist.all_reduce(ones, async_op=True).wait(),
            "barrier": dist.barrier,
            "monitored_barrier": dist.monitored_barrier,
            "send": lambda: dist.send(ones, 1 - rank),
            "coalesced": lambda: backend().allreduce_coalesced([ones, ones]).wait(),
            "suspend": backend().suspend,
        }
        for name, call in calls.items():
            error = error_of(call)
            assert error.is_a("ValueError"), f"{name}: {error}"
            assert "is suspended" in error.text, f"{name}: {error}"
        backend().resume()
        assert error_of(backend().resume).is_a("ValueError")
        group_works()
        dist.monitored_barrier()

    ranks(2).run(body)


def test_what_is_in_flight_is_finished_first(ranks):
    def body(rank, size):
        values = [torch.full((COUNT,), float(rank)) for _ in range(6)]
        works = [dist.all_reduce(value, async_op=True) for value in values]
        backend().suspend()
        assert all(work.is_completed() for work in works)
        assert all(bool((value == 3).all()) for value in values)
        backend().resume()
        large_sum(rank, size)

    ranks(3).run(body)
