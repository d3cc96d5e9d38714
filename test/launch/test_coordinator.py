"""The Coordinator: what it exchanges, and what it says when a rank does not come or does something else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist
from processes import LIMIT, coordinators, fresh_launch, in_ranks, info

from torch_customccl.launch import Coordinator, LaunchInfo
from torch_customccl.launch import coordinator as coordinator_module
from torch_customccl.launch.node import Page, shares_memory

SHORT = timedelta(milliseconds=300)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_what_it_offers(size):
    def body(coordinator):
        rank = coordinator.rank
        assert coordinator.world_size == coordinator.local_size == size
        assert coordinator.is_master() == coordinator.is_local_master() == (rank == 0)
        assert coordinator.local_ranks == tuple(range(size)) and coordinator.local_rank == rank
        assert (coordinator.node_rank, coordinator.node_count) == (0, 1)
        for src in range(size):
            assert coordinator.broadcast(b"from %d" % rank if rank == src else None, src) == b"from %d" % src
        gathered = coordinator.allgather(bytes([rank]) * rank)
        assert gathered == [bytes([i]) * i for i in range(size)]
        coordinator.barrier()
        coordinator.local_barrier()
        return coordinator.node_id, coordinator.unique_token(), coordinator.unique_token()

    answers = coordinators(size, body)
    assert len(set(answers)) == 1
    assert len(set(answers[0])) == 3 and all(len(text) == 32 for text in answers[0])


def test_any_bytes_travel():
    values = [b"", b"\0\n\xff" * 7, bytes(range(256)) * 4096, b"x" * (20 << 20)]

    def body(coordinator):
        for value in values:
            assert coordinator.broadcast(value if coordinator.rank == 1 else None, 1) == value
        assert coordinator.allgather(memoryview(b"view")) == [b"view"] * 2

    coordinators(2, body)


def test_what_the_others_give_to_a_broadcast_is_not_looked_at():
    def body(coordinator):
        for given, sent in (("a str", b"first"), (object(), b"second"), (5, b"third")):
            assert coordinator.broadcast(given if coordinator.rank else sent) == sent

    coordinators(2, body)


def test_once_per_node():
    calls = []

    def body(coordinator):
        assert coordinator.once_per_node(lambda: calls.append(coordinator.rank) or {"answer": [42]}) == {"answer": [42]}
        with pytest.raises(RuntimeError if coordinator.rank else KeyError, match="not there") as error:
            coordinator.once_per_node(lambda: {}["not there"])
        if coordinator.rank:
            assert "failed on rank 0: KeyError" in str(error.value)
        coordinator.local_barrier()  # a function that fails does not end the coordinator

    coordinators(3, body)
    assert calls == [0]


def test_a_held_port_is_held():
    with Coordinator(info(0, 1, fresh_launch())).reserve_port() as held:
        port = held.getsockname()[1]
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", port))
        store = dist.TCPStore("127.0.0.1", port, None, True, wait_for_workers=False, master_listen_fd=held.detach())
        assert store.port == port


def test_several_coordinators_over_one_launch():
    def body(first):
        second = Coordinator(first.launch_info, timeout=LIMIT)
        assert second.allgather(b"2") == [b"2"] * 2
        assert first.allgather(b"1") == [b"1"] * 2
        second.store.set(f"key of {first.rank}", "second")
        first.barrier()
        assert not first.store.check([f"key of {1 - first.rank}"])
        assert second.store.get(f"key of {1 - first.rank}") == b"second"
        first.barrier()

    coordinators(2, body, local_size=2)


def test_its_store_makes_groups():
    def body(coordinator):
        group = dist.ProcessGroupGloo(coordinator.store, coordinator.rank, coordinator.world_size, LIMIT)
        group.barrier().wait()
        coordinator.barrier()

    coordinators(2, body)


def test_nothing_stays_in_the_store():
    def body(coordinator):
        coordinator.barrier()
        before = coordinator.store.num_keys()
        for _ in range(5):
            coordinator.broadcast(b"x", 1)
            coordinator.allgather(b"y")
        coordinator.barrier()
        coordinator.barrier()
        return coordinator.store.num_keys() - before

    assert max(coordinators(2, body)) <= 3  # of rounds that a rank is still in


def test_who_does_not_come_is_named():
    launch = fresh_launch()

    def body(rank):
        coordinator = Coordinator(info(rank, 4, launch), timeout=LIMIT)
        if rank in (1, 3):
            return
        with pytest.raises(TimeoutError, match=r"barrier .* rank 1, 3 did not come within 0\.3 s"):
            coordinator.barrier(timeout=SHORT)
        with pytest.raises(RuntimeError, match="refused: this coordinator failed before: barrier"):
            coordinator.broadcast(b"")

    assert in_ranks(4, body) == [None] * 4


def test_who_never_started_is_named():
    launch = fresh_launch()

    def body(rank):
        if rank == 0:
            with pytest.raises(TimeoutError, match=r"rank 2 did not come within 3 s"):
                Coordinator(info(rank, 3, launch), timeout=timedelta(seconds=3))  # its store ends then
        elif rank == 1:
            with pytest.raises(TimeoutError, match=r"rank 2 did not come within 0\.3 s"):
                Coordinator(info(rank, 3, launch), timeout=SHORT)

    assert in_ranks(3, body) == [None] * 3
    # Who tries again meets anew.
    again = in_ranks(3, lambda rank: Coordinator(info(rank, 3, launch), timeout=LIMIT).allgather(b"!"))
    assert again == [[b"!"] * 3] * 3
    with pytest.raises(TimeoutError, match=r"rank 1 waited .* in vain for rank 0 of launch 'nobody'"):
        Coordinator(info(1, 2, "nobody"), timeout=SHORT)


def test_an_interrupt_ends_a_wait_and_the_coordinator():
    """Ctrl-C comes to the main thread: rank 0 is there, in a barrier that has no other end."""

    def interrupt():
        board = Coordinator(info(1, 2, launch), timeout=LIMIT)._world
        while not board._store.check([f"{board._round + 1}/0"]):
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    launch = fresh_launch()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has jobs in the background ignore it
    other = threading.Thread(target=interrupt, daemon=True)
    other.start()
    try:
        coordinator = Coordinator(info(0, 2, launch), timeout=LIMIT)
        with pytest.raises(KeyboardInterrupt):
            coordinator.barrier(timeout=timedelta(hours=1))
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(RuntimeError, match="refused: this coordinator failed before: KeyboardInterrupt"):
        coordinator.barrier()
    other.join(60)


def test_different_calls_are_found():
    def body(coordinator):
        with pytest.raises(
            RuntimeError, match=r"different things.*rank . (barrier|allgather), rank . (barrier|allgather)"
        ):
            coordinator.barrier() if coordinator.rank else coordinator.allgather(b"")

    coordinators(2, body)


def test_bad_arguments():
    coordinator = Coordinator(info(0, 1, fresh_launch()))
    for call, error, says in (
        (lambda: coordinator.broadcast(b"", 1), ValueError, "src is 1, in a world of 1"),
        (lambda: coordinator.broadcast("text"), TypeError, "takes bytes, not str"),
        (lambda: coordinator.allgather(None), TypeError, "takes bytes, not NoneType"),
        (lambda: Coordinator(timeout=timedelta(0)), ValueError, "must be positive"),
    ):
        with pytest.raises(error, match=says):
            call()
    assert coordinator.allgather(b"still works") == [b"still works"]


def test_a_launch_that_tells_no_place():
    with pytest.raises(ValueError, match="nothing tells where the ranks meet"):
        Coordinator(LaunchInfo.detect({"RANK": "0", "WORLD_SIZE": "2"}), timeout=SHORT)
    with pytest.raises(ValueError, match="give master_addr"):
        Coordinator(info(0, 4, "several hosts", local_size=2), timeout=SHORT)
    for variables, says in (
        ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "PMI_FD .unset. is no socket"),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, "PMIx|libpmix"),
    ):
        with pytest.raises(ConnectionError, match=says):
            Coordinator(LaunchInfo.detect(variables), timeout=SHORT)


def test_several_nodes(monkeypatch):
    """As if even and odd ranks could not share memory."""

    class PageOfHalf(Page):
        def __init__(self):
            super().__init__()
            self.name = str(int(threading.current_thread().name) % 2)

    monkeypatch.setattr(coordinator_module, "Page", PageOfHalf)
    monkeypatch.setattr(
        coordinator_module, "shares_memory", lambda name, _: int(name) == int(threading.current_thread().name) % 2
    )

    def body(coordinator):
        rank = coordinator.rank
        assert coordinator.local_ranks == tuple(range(rank % 2, 5, 2)) and coordinator.local_rank == rank // 2
        assert (coordinator.node_rank, coordinator.node_count) == (rank % 2, 2)
        assert coordinator.is_local_master() == (rank < 2) and coordinator.is_master() == (rank == 0)
        assert coordinator.once_per_node(lambda: rank) == rank % 2
        coordinator.local_barrier()
        return coordinator.node_id

    answers = coordinators(5, body, local_size=3, master_addr="127.0.0.1")
    assert len(set(answers[0::2])) == len(set(answers[1::2])) == 1 and answers[0] != answers[1]


def _last_words(launch, rank):
    coordinator = Coordinator(info(rank, 2, launch), timeout=LIMIT)
    coordinator.barrier()
    assert coordinator.broadcast(b"the last" if rank == 0 else None) == b"the last"


def test_rank_0_ends_when_the_others_have_read(rank_pool):
    """Its store ends with it. Here every process ends as soon as it can. (The pool's server of processes has torch.)"""
    context = multiprocessing.get_context("forkserver")
    launches = [fresh_launch() + os.urandom(4).hex() for _ in range(3)]
    started = [context.Process(target=_last_words, args=(launch, rank)) for launch in launches for rank in (0, 1)]
    for process in started:
        process.start()
    for process in started:
        process.join(90)
    assert [process.exitcode for process in started] == [0] * len(started)


def test_a_forked_child_is_refused():
    def body(coordinator):
        child = os.fork()
        if child == 0:
            try:
                coordinator.barrier()
            except RuntimeError as error:
                os._exit(0 if "forked" in str(error) else 2)
            os._exit(3)
        assert os.waitpid(child, 0)[1] == 0
        coordinator.barrier()

    coordinators(1, body)


def test_nodes_are_told_apart_by_their_memory():
    """Another network namespace is another node: its processes cannot be handed our memory."""
    page = Page()
    code = "import sys; from torch_customccl.launch.node import shares_memory; print(shares_memory(*sys.argv[1:]))"
    there = [sys.executable, "-c", code, page.name, page.digest]
    try:
        assert shares_memory(page.name, page.digest)
        assert not shares_memory(page.name, "0" * 64) and not shares_memory("customccl-node-nobody", page.digest)
        assert subprocess.run(there, capture_output=True, text=True, timeout=60).stdout == "True\n"
        inside = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
        if subprocess.run([*inside, "true"], capture_output=True, timeout=60).returncode != 0:
            pytest.skip("this machine lets nobody make a network namespace")
        assert subprocess.run([*inside, *there], capture_output=True, text=True, timeout=60).stdout == "False\n"
    finally:
        page.close()
    assert not shares_memory(page.name, page.digest)


def test_limits_of_any_size_and_what_is_no_limit():
    def body(rank):
        coordinator = Coordinator(info(rank, 2, launch), timeout=timedelta.max)
        with pytest.raises(TypeError, match=r"timeout of barrier must be a datetime\.timedelta, not 5"):
            coordinator.barrier(timeout=5)
        coordinator.barrier(timeout=timedelta.max)

    launch = fresh_launch()
    assert in_ranks(2, body) == [None, None]
