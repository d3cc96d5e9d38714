"""What c10d asks of a backend since torch 2.14 and 2.15. The torch of `make test TORCH=2.15.0` runs it."""

from __future__ import annotations

import json
from datetime import timedelta

import torch
import torch.distributed as dist
from harness.rank import error_of, subgroup
from harness.torch_version import since_torch
from torch._C import _distributed_c10d as c10d

since_2_14, since_2_15 = since_torch("2.14"), since_torch("2.15")


@since_2_14
def test_gather_single_fills_one_tensor_on_the_root(ranks):
    def body(rank, size):
        for root in range(size):
            mine = torch.full((2, 3), float(rank))
            gathered = torch.zeros(2 * size, 3) if rank == root else None
            work = dist.gather_single(mine, gathered, dst=root, async_op=root % 2 == 1)
            if root % 2 == 1:
                work.wait()
            if gathered is not None:
                assert gathered.tolist() == [[float(each)] * 3 for each in range(size) for _ in range(2)]
        assert error_of(dist.gather_single, torch.ones(2), torch.ones(5), dst=rank).is_a("ValueError")
        dist.barrier()

    ranks(3).run(body)


@since_2_14
def test_a_work_tells_its_timeout_and_extensions_count_in_it(ranks):
    def body(rank, size):
        with subgroup(timeout=timedelta(seconds=30)) as group:
            dist.distributed_c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=3))
            ones = torch.ones(3)
            works = [dist.all_reduce(ones, group=group, async_op=True) for _ in range(2)]
            assert works[0].timeout == timedelta(seconds=33)
            for work in works:
                work.wait()
            assert dist.all_reduce(ones, group=group, async_op=True).timeout == timedelta(seconds=30)
            dist.barrier(group=group)

    ranks(2).run(body)


@since_2_15
def test_torchs_own_flight_recorder_sees_every_operation_succeed(ranks):
    """torch attaches its recorder to every group. By the completion hook it learns that an operation is over."""

    def body(rank, size):
        with subgroup() as group:
            backend = group._get_backend(torch.device("cpu"))
            assert backend.supports_completion_hooks
            assert backend.supports_abort_hooks
            value = torch.ones(4)
            dist.all_reduce(value, group=group)
            works = [dist.all_reduce(value, group=group, async_op=True) for _ in range(5)]
            works.append(dist.barrier(group=group, async_op=True))
            works.append((dist.isend if rank == 0 else dist.irecv)(torch.ones(3), 1 - rank, group=group))
            for work in works:
                work.wait()
            entries = json.loads(c10d._dump_fr_trace_json(backend="customccl"))["entries"]
            ours = [entry for entry in entries if entry["process_group"][0] == group.group_name]
            return [(entry["profiling_name"], entry["state"], entry["duration_ms"] > 0) for entry in ours]

    for rank, seen in enumerate(ranks(2).run(body)):
        message = "customccl:send 0->1" if rank == 0 else "customccl:recv 1<-0"
        names = [*["customccl:all_reduce"] * 6, "customccl:barrier", message]
        assert seen == [(name, "completed", True) for name in names]


@since_2_15
def test_an_operation_that_fails_stays_open_in_the_record(ranks):
    def body(rank, size):
        if rank == 1:
            return None
        work = dist.all_reduce(torch.ones(4), async_op=True)
        dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        assert error_of(work.wait).is_a("DistBackendError")
        entries = json.loads(c10d._dump_fr_trace_json(backend="customccl"))["entries"]
        return [entry["state"] for entry in entries if entry["profiling_name"] == "customccl:all_reduce"]

    assert ranks(2, fresh=True).run(body)[0] == ["scheduled"]


@since_2_15
def test_time_is_not_estimated(ranks):
    def body(rank, size):
        assert not dist.group.WORLD._get_backend(torch.device("cpu"))._supports_time_estimate

    ranks(2).run(body)
