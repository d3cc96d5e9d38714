"""What calls give that are not asynchronous: no Work, except where torch would crash without one."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed._functional_collectives import allow_inflight_collective_as_graph_input_ctx as inflight
from torch.distributed.tensor.debug import CommDebugMode


def part(rank):
    return torch.arange(4.0) + 10 * rank


def synchronous(kind):
    options = kind()
    options.asyncOp = False
    return options


def calls(group, rank, size):
    """Each operation of the group: its name, what it gave, its outputs, and what they must be."""
    everything, blocks = torch.stack([part(r) for r in range(size)]), list(part(rank).chunk(size))
    exchanged = [part(r).chunk(size)[rank] for r in range(size)]
    summed = everything.sum(0)

    value, options = part(rank), synchronous(c10d.AllreduceOptions)
    yield "all_reduce", group.allreduce([value], options), [value], [summed]
    value, options = part(rank), synchronous(c10d.ReduceOptions)
    yield "reduce", group.reduce([value], options), [value], [part(rank) if rank else summed]
    value, options = part(rank), synchronous(c10d.BroadcastOptions)
    yield "broadcast", group.broadcast([value], options), [value], [part(0)]

    outputs, options = [torch.empty(4) for _ in range(size)], synchronous(c10d.AllgatherOptions)
    yield "all_gather", group.allgather([outputs], [part(rank)], options), outputs, list(everything)
    joined = torch.empty(4 * size)
    yield "all_gather_into_tensor", group._allgather_base(joined, part(rank), options), [joined], [everything.flatten()]

    output, options = torch.empty(4 // size), synchronous(c10d.ReduceScatterOptions)
    yield "reduce_scatter", group.reduce_scatter([output], [blocks], options), [output], [summed.chunk(size)[rank]]
    output = torch.empty(4 // size)
    given = group._reduce_scatter_base(output, part(rank), options)
    yield "reduce_scatter_tensor", given, [output], [summed.chunk(size)[rank]]

    outputs, options = [torch.empty(4) for _ in range(size if rank == 0 else 0)], synchronous(c10d.GatherOptions)
    given = group.gather([] if rank else [outputs], [part(rank)], options)
    yield "gather", given, outputs, [] if rank else list(everything)
    output, options = torch.empty(4 // size), synchronous(c10d.ScatterOptions)
    given = group.scatter([output], [] if rank else [blocks], options)
    yield "scatter", given, [output], [part(0).chunk(size)[rank]]

    outputs, options = [torch.empty(4 // size) for _ in range(size)], synchronous(c10d.AllToAllOptions)
    yield "all_to_all", group.alltoall(outputs, blocks, options), outputs, exchanged
    joined = torch.empty(4)
    given = group.alltoall_base(joined, part(rank), [], [], options)
    yield "all_to_all_single", given, [joined], [torch.cat(exchanged)]
    yield "barrier", group.barrier(synchronous(c10d.BarrierOptions)), [], []


def check(group, rank, size):
    """The names of the operations that gave a Work."""
    gave = []
    for name, work, outputs, wanted in calls(group, rank, size):
        assert len(outputs) == len(wanted)
        for output, value in zip(outputs, wanted, strict=True):
            assert torch.equal(output, value), name
        if work is not None:
            assert work.is_completed() and work.wait(), name
            gave.append(name)
    return gave


def test_they_are_over_and_give_no_work(ranks):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        given = [check(dist.group.WORLD, rank, size), check(backend, rank, size)]
        with torch.profiler.profile():
            given.append(check(dist.group.WORLD, rank, size))
        if getattr(backend, "supports_completion_hooks", False):
            return  # torch 2.15 and later: its recorder listens, and wants a Work of each call
        assert given == [["all_to_all_single"]] * 3

    ranks(2).run(body)


def test_by_way_of_a_dispatch_mode(ranks):
    """There torch carries what a call gives as a value of its own kind."""

    def body(rank, size):
        with CommDebugMode() as seen:
            value = part(rank)
            dist.all_reduce(value)
            dist.barrier()
        assert torch.equal(value, part(0) + part(1))
        assert seen.get_total_counts() >= 1

    ranks(2).run(body)


def test_where_torch_keeps_a_list_of_works_in_flight(ranks):
    """It waits for all of them, and crashes at what is none."""

    def body(rank, size):
        value, late = part(rank), part(rank)
        before = c10d._get_work_registry_size()  # what earlier tests of this process never waited for
        with inflight():
            dist.all_reduce(part(rank), async_op=True).wait()
            assert c10d._get_work_registry_size() == before, "a Work that was waited for is still on the list"
            dist.all_reduce(value)
            work = dist.all_reduce(late, async_op=True)
        for tensor in (value, late):
            torch.ops._c10d_functional.wait_tensor(tensor)
            assert torch.equal(tensor, part(0) + part(1))
        assert work.is_completed()
        assert c10d._get_work_registry_size() == before

    ranks(2).run(body)


class Wrapper(dist.ProcessGroup):
    """A group written in Python over another, as trainers have them, with the names of torch 2.11.

    torch 2.13 calls all_to_all_single(), finds alltoall_base(), and waits for what that gives without looking at it.
    """

    def __init__(self, inner):
        super().__init__(inner.rank(), inner.size())
        self.inner = inner

    def allreduce(self, *args):
        return self.inner.allreduce(*args)

    def broadcast(self, *args):
        return self.inner.broadcast(*args)

    def alltoall_base(self, *args):
        return self.inner.alltoall_base(*args)

    def barrier(self, opts):
        return self.inner.barrier(opts)


def test_groups_written_in_python(ranks):
    def body(rank, size):
        group = Wrapper(dist.group.WORLD)
        value, sent, output = part(rank), part(rank), torch.empty(4)
        options = synchronous(c10d.AllreduceOptions)
        dist.ProcessGroup.allreduce(group, [value], options)
        dist.ProcessGroup.broadcast(group, [sent], synchronous(c10d.BroadcastOptions))
        exchange = getattr(dist.ProcessGroup, "all_to_all_single", dist.ProcessGroup.alltoall_base)
        exchange(group, output, part(rank), [], [], synchronous(c10d.AllToAllOptions)).wait()
        dist.ProcessGroup.barrier(group, synchronous(c10d.BarrierOptions))
        assert torch.equal(value, part(0) + part(1)) and torch.equal(sent, part(0))
        assert torch.equal(output, torch.cat([part(other).chunk(size)[rank] for other in range(size)]))

    ranks(2).run(body)
