"""Ways to make the first group: rendezvous methods, stores, backend strings, launchers.

No program imports the package: installing it must be enough.
"""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from harness import worker
from harness.programs import Program, environment, programs, run_ranks
from harness.rank import error_of, group_works
from harness.settings import BACKEND, GROUP_TIMEOUT_S, OURS

TIMEOUT = timedelta(seconds=GROUP_TIMEOUT_S)


def free_port() -> int:
    """A port that was free just now; rank 0 binds it again. Only for methods whose address must have a port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize("size", [1, 2])
def test_env_method(ranks, size):
    def body(rank, size, port):
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        dist.init_process_group(BACKEND, timeout=TIMEOUT)
        group_works()
        dist.barrier()
        dist.destroy_process_group()

    ranks(size, fresh=True, init=False).run(body, free_port())


def test_tcp_method(ranks):
    def body(rank, size, port):
        dist.init_process_group(BACKEND, f"tcp://127.0.0.1:{port}", rank=rank, world_size=size, timeout=TIMEOUT)
        group_works()
        dist.barrier()
        dist.destroy_process_group()

    ranks(2, fresh=True, init=False).run(body, free_port())


def test_file_method(ranks, tmp_path):
    def body(rank, size, path):
        dist.init_process_group(BACKEND, f"file://{path}", rank=rank, world_size=size, timeout=TIMEOUT)
        group_works()
        dist.barrier()
        dist.destroy_process_group()

    ranks(2, fresh=True, init=False).run(body, str(tmp_path / "meeting"))


@pytest.mark.parametrize("kind", ["TCPStore", "FileStore", "PrefixStore of a FileStore"])
def test_a_store_that_is_passed_in(ranks, tmp_path, kind):
    def body(rank, size, path):
        store = worker.seat.store() if kind == "TCPStore" else dist.FileStore(path, size)
        if kind.startswith("PrefixStore"):
            store = dist.PrefixStore("outer", dist.PrefixStore("inner", store))
        dist.init_process_group(BACKEND, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        group_works()
        dist.barrier()
        dist.destroy_process_group()

    ranks(2, fresh=True, init=False).run(body, str(tmp_path / "store"))


def test_a_hash_store_serves_a_group_of_one(ranks):
    def body(rank, size):
        dist.init_process_group(BACKEND, store=dist.HashStore(), rank=0, world_size=1)
        group_works()
        dist.destroy_process_group()

    ranks(1, fresh=True, init=False).run(body)


def test_the_default_group_may_be_made_and_destroyed_many_times(ranks):
    def body(rank, size):
        for turn in range(20):
            store = dist.PrefixStore(f"turn {turn}", worker.seat.store())
            dist.init_process_group(BACKEND, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
            group_works(case=f"turn {turn}")
            dist.destroy_process_group()

    ranks(2, fresh=True, init=False).run(body)


@pytest.mark.parametrize("names", ["{}", "cpu:{}", "cpu:{},cuda:nccl"])
def test_the_backend_may_be_named_alone_or_per_device(ranks, names):
    if "nccl" in names and not (dist.is_nccl_available() and torch.cuda.is_available()):
        # Without NCCL, or without a GPU, torch refuses its name; any other backend for cuda shows the same.
        names = names.replace("nccl", "gloo")

    def body(rank, size):
        name = names.format(BACKEND)
        dist.init_process_group(name, store=worker.seat.store(), rank=rank, world_size=size, timeout=TIMEOUT)
        group = dist.distributed_c10d._get_default_group()
        assert group._get_backend(torch.device("cpu")).name() == BACKEND
        group_works()
        subgroup = dist.new_group()
        group_works(subgroup)
        dist.barrier()
        dist.destroy_process_group()

    ranks(2, fresh=True, init=False).run(body)


def test_a_group_of_ours_may_stand_beside_one_of_gloo(ranks):
    def body(rank, size):
        gloo = dist.new_group(backend="gloo")
        for _ in range(3):
            group_works()
            group_works(gloo)
        dist.destroy_process_group(gloo)

    ranks(2).run(body)


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_children_started_by_multiprocessing(method):
    with programs([lambda: Program("start_children.py", method, "2", env=environment())]) as (program,):
        ended = program.end()
    assert ended.exit_code == 0 and "all children ended well" in ended.output, ended.output


def test_torchrun():
    options = ["--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    launch = [lambda: Program("sum_of_ranks.py", *options, env=environment(), module="torch.distributed.run")]
    with programs(launch) as (program,):
        ended = program.end()
    assert ended.exit_code == 0, ended.output
    assert "rank 0 of 2: sum 1" in ended.output and "rank 1 of 2: sum 1" in ended.output, ended.output


def test_data_loader_workers_do_not_disturb_their_rank():
    """Rank 0 starts workers by fork and spawn, rank 1 by forkserver and fork. Only forked ones have our library."""
    for rank, ended in enumerate(run_ranks("load_data.py", 2, "fork,spawn", "forkserver,fork")):
        assert ended.exit_code == 0 and "read everything" in ended.output, f"rank {rank}: {ended.output}"


def test_a_rank_that_leaves_its_group_open_ends_with_the_exit_code_of_its_script():
    for rank, ended in enumerate(run_ranks("sum_of_ranks.py", 2, EXIT_CODE="7", LEAVE_GROUP_OPEN="1")):
        assert ended.exit_code == 7 and f"rank {rank} of 2: sum 1" in ended.output, f"rank {rank}: {ended}"
        assert "terminate called" not in ended.output, f"rank {rank}: {ended}"


def test_detailed_debugging_by_torch_wraps_the_backend_without_harm(ranks):
    def body(rank, size):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        store = worker.seat.store()
        dist.init_process_group(BACKEND, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        group_works()
        dist.barrier()
        dist.destroy_process_group()

    ranks(2, fresh=True, init=False).run(body)


@pytest.mark.skipif(not OURS, reason="other backends have texts of their own")
def test_a_rank_that_never_comes_is_named_when_the_timeout_has_passed(ranks):
    def body(rank, size):
        limit = timedelta(seconds=1)
        store = dist.PrefixStore("alone", worker.seat.store())
        return error_of(dist.init_process_group, BACKEND, store=store, rank=0, world_size=2, timeout=limit)

    error = ranks(1, fresh=True, init=False).run(body)[0]
    assert "rank 1" in error.text and "did not join" in error.text, error
    assert error.seconds >= 1.0, error
