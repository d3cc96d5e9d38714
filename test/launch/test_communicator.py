"""The Communicator: every operation on tensors and addresses, by ranks that are threads; its end."""

from __future__ import annotations

import gc
import re
import threading
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness.oracle import OPAQUE
from processes import LIMIT, communicators, coordinators, fresh_launch, in_ranks, info

import torch_customccl
from torch_customccl import communicator
from torch_customccl._c_interface import CODES, DTYPES, OPS, REDUCE_OPS, library
from torch_customccl.communicator import Communicator
from torch_customccl.launch import Coordinator


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 5, 100_000])
def test_operations_on_tensors(size, length):
    def body(comm):
        rank, index = comm.rank, torch.arange(length, dtype=torch.float64)
        mine = index * 2 + rank
        total = index * 2 * size + sum(range(size))
        for op, expected in (("sum", total), (dist.ReduceOp.MAX, index * 2 + size - 1), ("avg", total / size)):
            tensor = mine.clone()
            comm.allreduce(tensor, op=op)
            assert torch.equal(tensor, expected)
        tensor = mine.clone()
        comm.reduce(tensor, root=size - 1)
        assert torch.equal(tensor, total if rank == size - 1 else mine)
        tensor = mine.clone()
        comm.broadcast(tensor, root=size - 1)
        assert torch.equal(tensor, index * 2 + size - 1)
        every = torch.stack([index * 2 + i for i in range(size)])
        gathered = torch.empty(size, length, dtype=torch.float64)
        comm.allgather(gathered, mine)
        assert torch.equal(gathered, every)
        gathered = torch.zeros(size, length, dtype=torch.float64) if rank == 0 else None
        comm.gather(gathered, mine, root=0)
        assert rank != 0 or torch.equal(gathered, every)
        got = torch.empty(length, dtype=torch.float64)
        comm.scatter(got, every if rank == 0 else None, root=0)
        assert torch.equal(got, mine)
        comm.reduce_scatter(got, every, op="min")
        assert torch.equal(got, mine)
        swapped = torch.empty_like(every)
        comm.alltoall(swapped, every + 1000 * rank)
        assert torch.equal(swapped, torch.stack([mine + 1000 * i for i in range(size)]))
        comm.barrier()

    communicators(size, body)


def test_messages():
    def body(comm):
        size, rank = comm.size, comm.rank
        for tag in (0, 7):
            comm.send(torch.full((3,), rank + tag), (rank + 1) % size, tag=tag)
        got = torch.empty(3, dtype=torch.int64)
        assert comm.recv(got, tag=7) == (rank - 1) % size and got.tolist() == [(rank - 1) % size + 7] * 3
        assert comm.recv(got, (rank - 1) % size) == (rank - 1) % size and got.tolist() == [(rank - 1) % size] * 3
        comm.barrier()  # who leaves ends the others' wait for a message from any

    communicators(3, body)


def test_every_tag_goes_by_one_prepared_call():
    def body(comm):
        got = torch.empty(1, dtype=torch.int64)
        for tag in [0, 1, (1 << 63) - 1, *range(2, 200)]:
            if comm.rank == 0:
                comm.send(torch.tensor([tag]), 1, tag=tag)
            else:
                assert comm.recv(got, 0, tag=tag) == 0 and got.item() == tag
        assert sum(len(slots) for slots in comm._slots.values()) <= 1
        comm.barrier()

    communicators(2, body)


def test_addresses():
    def body(comm):
        numbers = torch.tensor([comm.rank + 1, 10], dtype=torch.int32)
        comm.allreduce(numbers.data_ptr(), 2, torch.int32, "product")
        assert numbers.tolist() == [2, 100]
        comm.broadcast(numbers.data_ptr(), 1, torch.int32, root=1)
        both = torch.empty(4, dtype=torch.int32)
        comm.allgather(both.data_ptr(), numbers.data_ptr(), 2, torch.int32)
        assert both.tolist() == [2, 100] * 2
        comm.reduce(numbers.data_ptr(), 2, torch.int32)
        comm.send(numbers.data_ptr(), 1 - comm.rank, 2, torch.int32)
        assert comm.recv(both.data_ptr(), 1 - comm.rank, 2, torch.int32) == 1 - comm.rank

    communicators(2, body)


def test_every_dtype_of_the_library():
    def body(comm):
        moved = [name for name in DTYPES if getattr(torch, name.lower()) in OPAQUE]
        assert len(moved) == len(OPAQUE)
        for name in moved:
            tensor = torch.full((9,), comm.rank + 7, dtype=torch.uint8)
            comm.broadcast(tensor.view(getattr(torch, name.lower())), root=1)
            assert tensor.tolist() == [8] * 9
        for name in (name for name in DTYPES if name not in moved):
            tensor = torch.ones(9).to(getattr(torch, name.lower()))
            comm.allreduce(tensor, op="bor" if name == "BOOL" else "sum")
            assert torch.equal(tensor, torch.full((9,), 1 if name == "BOOL" else 2).to(tensor.dtype))

    communicators(2, body)


def test_inference_mode_and_views():
    def body(comm):
        with torch.inference_mode():
            tensor = torch.ones(4)
            comm.allreduce(tensor)
            assert tensor.tolist() == [2.0] * 4
        parameter = torch.nn.Parameter(torch.ones(2))
        comm.allreduce(parameter)
        rows = torch.arange(6.0).reshape(3, 2)
        comm.allreduce(rows[1])
        assert parameter.tolist() == [2.0, 2.0] and rows.tolist() == [[0, 1], [4, 6], [4, 5]]
        comm.allreduce(torch.empty(0))

    communicators(2, body)


def test_a_torch_without_a_shim(monkeypatch):
    def missing():
        raise RuntimeError("no shim for torch 9.9")

    monkeypatch.setattr(communicator, "shim", missing)

    def body(comm):
        tensor = torch.arange(5.0) + comm.rank
        comm.allreduce(tensor, op="max")
        assert tensor.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
        with pytest.raises(ValueError, match="not contiguous"):
            comm.allreduce(torch.ones(4, 4).t())

    communicators(2, body)


def test_failures_end_it_and_name_the_rank():
    def body(comm):
        with pytest.raises(dist.DistBackendError, match=r'group "pair" failed.*different things'):
            comm.allreduce(torch.ones(2 + comm.rank))
        with pytest.raises(dist.DistBackendError, match="refused"):
            comm.barrier()

    communicators(2, body, name="pair")

    def leave(comm):
        if comm.rank == 1:
            return comm.close()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            comm.barrier()
        return None

    communicators(2, leave)


def test_a_rank_that_does_not_join():
    def body(coordinator):
        if coordinator.rank == 0:
            with pytest.raises(dist.DistBackendError, match="rank 1 did not join"):
                Communicator(coordinator, timeout=timedelta(milliseconds=200))
        else:
            coordinator.broadcast(None)

    coordinators(2, body)
    with pytest.raises(ValueError, match="must be positive"):
        Communicator(Coordinator(info(0, 1, fresh_launch())), timeout=timedelta(0))


def test_abort_from_another_thread():
    def body(comm):
        if comm.rank == 0:
            threading.Timer(0.05, comm.abort, ["enough of it"]).start()
        else:
            comm.recv(torch.empty(1)) if comm.rank == 3 else None
        with pytest.raises(dist.DistBackendError, match="enough of it"):
            comm.recv(torch.empty(1))

    communicators(2, body)


@pytest.mark.parametrize("shift", range(3))
def test_a_reason_that_is_cut_off_is_cut_between_characters(shift):
    def body(comm):
        if comm.rank == 0:
            comm.abort("x" * shift + "\N{EURO SIGN}" * 1500)
        with pytest.raises(dist.DistBackendError, match="\N{EURO SIGN}" * 200) as raised:
            comm.barrier()
        assert "\ufffd" not in str(raised.value)

    communicators(2, body)


def test_the_end_of_the_object_leaves():
    def body(comm):
        with comm:
            comm.barrier()
        for call in (comm.barrier, lambda: comm.allreduce(torch.ones(1)), lambda: comm.recv(torch.ones(1))):
            with pytest.raises(ValueError, match="the communicator is closed"):
                call()
        comm.close()

    communicators(2, body)
    launch = fresh_launch()

    def dropped(rank):
        comm = Communicator(Coordinator(info(rank, 2, launch), timeout=LIMIT), timeout=LIMIT)
        comm.allreduce(torch.ones(3))
        if rank == 1:
            del comm
            gc.collect()
            return
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            comm.barrier()

    assert in_ranks(2, dropped) == [None] * 2


def test_threads_share_a_communicator():
    """Messages of four pairs of threads at once: each has a call of its own."""

    def body(comm):
        def talk(tag):
            for turn in range(200):
                outgoing, incoming = torch.full((tag + 1,), turn * 10 + tag), torch.empty(tag + 1, dtype=torch.int64)
                comm.send(outgoing, 1 - comm.rank, tag=tag)
                comm.recv(incoming, 1 - comm.rank, tag=tag)
                assert torch.equal(incoming, outgoing)

        assert in_ranks(4, talk) == [None] * 4

    communicators(2, body)


def test_names_are_those_of_the_header():
    header = (Path(torch_customccl.include_dir()) / "customccl.h").read_text()
    enums = re.findall(r"^enum \{\n(.*?)^\};", header, re.DOTALL | re.MULTILINE)
    there = [[(name, int(number)) for name, number in re.findall(r"CUSTOMCCL_(\w+) = (\d+)", enum)] for enum in enums]
    assert there == [
        [(name, number) for number, name in enumerate(names)] for names in (CODES, OPS, DTYPES, REDUCE_OPS)
    ]
    text = {name: library().customccl_error_text(number).decode() for number, name in enumerate(CODES)}
    assert text == {name: f"CUSTOMCCL_{name}" for name in CODES}
    sizes = [library().customccl_dtype_size(number) for number in range(len(DTYPES))]
    assert sizes == [getattr(torch, name.lower()).itemsize for name in DTYPES]
