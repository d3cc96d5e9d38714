"""The Coordinator: what it exchanges, over one node and several, and how it ends."""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading

import pytest
import torch.distributed as dist
from processes import LIMIT, coordinators, fresh_launch, info

from torch_customccl.launch import Coordinator
from torch_customccl.launch import coordinator as coordinator_module
from torch_customccl.launch.node import Page


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


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError


def test_once_per_node_tells_of_an_error_whose_text_raises():
    def fail():
        raise UnspeakableError

    def body(coordinator):
        with pytest.raises(RuntimeError if coordinator.rank else UnspeakableError) as error:
            coordinator.once_per_node(fail)
        if coordinator.rank:
            assert "failed on rank 0: UnspeakableError, which cannot be quoted (ValueError)" in str(error.value)
        coordinator.local_barrier()

    coordinators(2, body)


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


def test_several_nodes(monkeypatch):
    """As if even and odd ranks could not share memory."""

    class PageOfHalf(Page):
        def __init__(self):
            super().__init__()
            self.name = str(int(threading.current_thread().name) % 2)

    monkeypatch.setattr(coordinator_module, "Page", PageOfHalf)
    monkeypatch.setattr(
        coordinator_module, "shares_memory", lambda name, *_: int(name) == int(threading.current_thread().name) % 2
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
