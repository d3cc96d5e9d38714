"""Every operation as a method: on tensors, numpy arrays and buffers; and torch.distributed's functions on a Group."""

from __future__ import annotations

import array
import ctypes

import numpy as np
import pytest
import torch
import torch.distributed as dist
from harness.rank import share_no_memory
from shared import group
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._python_dispatch import TorchDispatchMode


def wrap_tensor(values):
    return torch.tensor(values, dtype=torch.float32)


def wrap_strided(values):
    return torch.tensor(values, dtype=torch.float32).repeat_interleave(3)[::3]


def wrap_numpy(values):
    return np.array(values, dtype=np.float32)


def wrap_numpy_strided(values):
    return np.repeat(np.array(values, dtype=np.float32), 2)[::2]


def wrap_array(values):
    return array.array("f", values)


def wrap_memoryview(values):
    return memoryview(bytearray(np.array(values, dtype=np.float32).tobytes())).cast("f")


def wrap_ctypes(values):
    return (ctypes.c_float * len(values))(*values)


WRAPPERS = [wrap_tensor, wrap_strided, wrap_numpy, wrap_numpy_strided, wrap_array, wrap_memoryview, wrap_ctypes]


def reductions(made, rank, wrap):
    summed, most, block = wrap([rank, 1.0]), wrap([rank + 1.0]), wrap([0.0])
    made.all_reduce(summed)
    yield "all_reduce", [summed]
    made.reduce(most, dst=1, op=dist.ReduceOp.MAX)
    yield "reduce", [most]
    made.reduce_scatter(block, [wrap([1.0 + rank]), wrap([10.0])])
    yield "reduce_scatter", [block]
    made.reduce_scatter_tensor(block, wrap([2.0, 3.0]))
    yield "reduce_scatter_tensor", [block]


def moves(made, rank, wrap):
    x, all_of_it = wrap([float(rank)] * 3), wrap([0.0] * 4)
    made.broadcast(x, src=1)
    yield "broadcast", [x]
    two = wrap([0.0, 0.0]), wrap([0.0, 0.0])
    made.all_gather(two, wrap([rank, 5.0]))
    yield "all_gather", two
    made.all_gather_into_tensor(all_of_it, wrap([rank, 6.0]))
    yield "all_gather_into_tensor", [all_of_it]
    outs = [wrap([0.0]), wrap([0.0])] if rank == 0 else None
    made.gather(wrap([7.0 + rank]), outs, dst=0)
    yield "gather", outs or []
    x = wrap([0.0])
    made.scatter(x, [wrap([4.0]), wrap([5.0])] if rank == 1 else None, src=1)
    yield "scatter", [x]
    two = wrap([0.0]), wrap([0.0])
    made.all_to_all(two, [wrap([10.0 * rank]), wrap([10.0 * rank + 1])])
    yield "all_to_all", two
    x = wrap([0.0] * (2 + rank))
    made.all_to_all_single(x, wrap([rank + 1.0, 20.0, 30.0][: 2 + rank]), [1, 1 + rank], [1, 1 + rank])
    yield "all_to_all_single", [x]


def messages(made, rank, wrap):
    x, peer = wrap([0.0]), 1 - rank
    if rank == 0:
        made.send(wrap([9.0]), peer, tag=3)
        assert made.recv(x, tag=4) == 1
    else:
        assert made.recv(x, peer, tag=3) == 0
        made.send(wrap([8.0]), peer, tag=4)
    yield "recv", [x]
    for work in (made.isend(wrap([6.0]), peer), made.irecv(x, peer)):
        work.wait()
    yield "irecv", [x]
    made.barrier()


OF_RANK_0 = {
    "all_reduce": [[1, 2]],
    "reduce": [[1]],
    "reduce_scatter": [[3]],
    "reduce_scatter_tensor": [[4]],
    "broadcast": [[1, 1, 1]],
    "all_gather": [[0, 5], [1, 5]],
    "all_gather_into_tensor": [[0, 6, 1, 6]],
    "gather": [[7], [8]],
    "scatter": [[4]],
    "all_to_all": [[0], [10]],
    "all_to_all_single": [[1, 2]],
    "recv": [[8]],
    "irecv": [[6]],
}
ALSO_OF_RANK_1 = {
    "reduce": [[2]],
    "reduce_scatter": [[20]],
    "reduce_scatter_tensor": [[6]],
    "gather": [],
    "scatter": [[5]],
    "all_to_all": [[1], [11]],
    "all_to_all_single": [[20, 20, 30]],
    "recv": [[9]],
}


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda wrap: wrap.__name__)
def test_every_operation_takes_what_has_memory(ranks, wrap):
    def body(rank, size, wrap):
        with group(rank, size, "operations") as made:
            return {
                name: [[float(value) for value in buffer] for buffer in buffers]
                for family in (reductions, moves, messages)
                for name, buffers in family(made, rank, wrap)
            }

    assert ranks(2).run(body, wrap) == [OF_RANK_0, {**OF_RANK_0, **ALSO_OF_RANK_1}]


def test_bytes_of_any_length(ranks):
    def body(rank, size):
        with group(rank, size, "bytes") as made:
            return made.allgather(b"x" * rank * 1000), made.allgather(bytearray([rank]))

    for gathered, short in ranks(3).run(body):
        assert gathered == [b"", b"x" * 1000, b"x" * 2000]
        assert short == [b"\0", b"\1", b"\2"]


def test_bytes_of_any_length_over_gloo(ranks):
    def body(rank, size):
        if rank == 0:
            share_no_memory()
        with group(rank, size, "bytes over gloo") as made:
            assert made._get_backend(torch.device("cpu")).name() == "gloo"
            return [made.allgather(b"x" * length) for length in (2 * rank, 5 - rank, 0, 3)]

    for gathered in ranks(2, fresh=True, init=False).run(body):
        assert gathered == [[b"", b"xx"], [b"x" * 5, b"x" * 4], [b"", b""], [b"xxx"] * 2]


def test_whoever_watches_torchs_dispatcher_sees_an_all_reduce(ranks):
    def body(rank, size):
        class Seen(TorchDispatchMode):
            def __init__(self):
                super().__init__()
                self.names = []

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.names.append(function.name())
                return function(*args, **(kwargs or {}))

        with group(rank, size, "watched") as made:
            tensor = torch.ones(2)
            with Seen() as seen:
                made.all_reduce(tensor)
            made.all_reduce(tensor, dist.ReduceOp.MAX)
            return tensor.tolist(), seen.names

    assert ranks(2).run(body) == [([2.0, 2.0], ["c10d::allreduce_"])] * 2


def test_absent_arguments_may_be_named_and_numbers_may_be_numpys(ranks):
    def body(rank, size):
        with group(rank, size, "absent") as made:
            x, y = torch.zeros(2), torch.zeros(2 + rank)
            made.all_to_all_single(x, torch.tensor([1.0, 2.0]) + 10 * rank, None, None)
            splits = np.array([1, 1 + rank])
            made.all_to_all_single(y, torch.arange(2.0 + rank) + 10 * rank, splits, splits)
            if rank == 0:
                made.send(torch.tensor([7.0]), np.int64(1), tag=np.int32(3))
            else:
                made.recv(x[:1], tag=np.int64(3))
            return x.tolist(), y.tolist()

    assert ranks(2).run(body) == [([1.0, 11.0], [0.0, 10.0]), ([7.0, 12.0], [1.0, 11.0, 12.0])]


def test_functions_of_torch_take_the_group(ranks):
    """They name ranks as `ranks` says: here 5 and 3."""

    def body(rank, size):
        with group(rank, size, "as process group", ranks=[5, 3]) as made:
            x, outs = torch.full((2,), float(rank)), [torch.zeros(2), torch.zeros(2)]
            dist.broadcast(x, src=3, group=made)
            assert x.tolist() == [1.0, 1.0]
            dist.all_reduce(x, group=made)
            dist.reduce(x, 5, group=made)
            dist.all_gather(outs, x, group=made)
            dist.all_gather_into_tensor(torch.zeros(4), x, group=made)
            dist.reduce_scatter(x, outs, group=made)
            dist.reduce_scatter_tensor(x, torch.zeros(4), group=made)
            dist.gather(x, outs if rank == 0 else None, dst=5, group=made)
            dist.scatter(x, outs if rank == 1 else None, src=3, group=made)
            dist.all_to_all(outs, [x, x], group=made)
            dist.all_to_all_single(x, x.clone(), group=made)
            if rank == 0:
                dist.send(torch.full((2,), 7.0), 3, group=made, tag=2)
            else:
                assert dist.recv(x, group=made, tag=2) == 5 and x.tolist() == [7.0, 7.0]
            pair = [
                dist.P2POp(dist.isend, torch.full((2,), float(rank)), group=made, group_peer=1 - rank),
                dist.P2POp(dist.irecv, x, group=made, group_peer=1 - rank),
            ]
            for work in dist.batch_isend_irecv(pair):
                work.wait()
            assert x.tolist() == [1.0 - rank] * 2
            dist.barrier(group=made)
            assert dist.get_world_size(made) == 2 and dist.get_process_group_ranks(made) == [5, 3]
            both = functional.wait_tensor(functional.all_reduce(torch.ones(2), "sum", made))
            assert both.tolist() == [2.0, 2.0]

    ranks(2, fresh=True, init=False).run(body)


def test_it_serves_ddp_and_device_meshes(ranks):
    def body(rank, size):
        with group(rank, size, "of a model") as made:
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1, bias=False), process_group=made)
            model(torch.full((1, 2), float(rank))).sum().backward()
            assert model.module.weight.grad.tolist() == [[0.5, 0.5]]
            mesh = DeviceMesh.from_group(made, "cpu")
            assert mesh.get_group() is made
            shard = torch.distributed.tensor.distribute_tensor(
                torch.arange(4.0), mesh, [torch.distributed.tensor.Shard(0)]
            )
            assert shard.to_local().tolist() == [2.0 * rank, 2.0 * rank + 1]
            assert shard.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]

    ranks(2).run(body)


def test_it_outlives_the_world(ranks):
    def body(rank, size):
        with group(rank, size, "outlives") as made:
            dist.destroy_process_group()
            x = torch.ones(1)
            made.all_reduce(x)
            dist.broadcast(x, src=1, group=made.process_group)
            assert functional.wait_tensor(functional.all_reduce(x, "sum", made)).tolist() == [4.0]

    ranks(2, fresh=True).run(body)
