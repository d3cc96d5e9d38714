"""Where ranks meet: URIs, a socket that is bound before, a launcher's environment."""

from __future__ import annotations

import re
import socket
from datetime import timedelta

import pytest
import torch
from harness.descriptors import free_descriptors
from harness.rank import hear_parent, tell_parent
from shared import LIMIT

from torch_customccl import create_group, open_store, serve_store


def sum_over(uri, rank, size, **options):
    with create_group(uri, rank, size, "meets", timeout=LIMIT, **options) as made:
        x = torch.ones(1)
        made.all_reduce(x)
        return x.item()


def test_a_file(ranks, tmp_path):
    def body(rank, size, uri):
        return sum_over(uri, rank, size)

    assert ranks(2).run(body, f"file://{tmp_path}/store") == [2.0, 2.0]


def test_a_socket_that_was_bound_before(ranks):
    """The port is known before anybody connects, and nobody else can have it: also in the environment of torchrun."""

    def body(rank, size, monkeypatched):
        import os

        os.environ.update(monkeypatched)
        if rank == 0:
            listener = socket.create_server(("127.0.0.1", 0))
            tell_parent("port", listener.getsockname()[1])
            port = listener.getsockname()[1]
        else:
            listener, port = None, hear_parent()
        return sum_over(f"tcp://127.0.0.1:{port}", rank, size, listener=listener)

    workers = ranks(2, fresh=True, init=False)
    workers.start(body, {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})
    workers.tell(1, workers.wait_for(0, "port"))
    assert [outcome.value for outcome in workers.finish()] == [2.0, 2.0]


def test_a_server_that_somebody_else_runs(ranks):
    def body(rank, size, uri):
        return sum_over(uri, rank, size)

    server = serve_store(timeout=LIMIT)
    assert ranks(2).run(body, f"tcp://127.0.0.1:{server.port}?owner=other") == [2.0, 2.0]


def test_a_server_starts_whatever_limit_its_store_has():
    """torch connects to it, and asks the name servers before that: not within no time at all."""
    store = serve_store(timeout=timedelta(0))
    assert store.timeout == timedelta(0)
    store.set("key", "value")
    assert store.check(["key"])


def test_a_server_at_an_address_of_ipv6(ranks):
    def body(rank, size):
        listener = socket.create_server(("::", 0), family=socket.AF_INET6) if rank == 0 else None
        if rank == 0:
            tell_parent("port", listener.getsockname()[1])
        port = hear_parent()
        return sum_over(f"tcp://[::1]:{port}", rank, size, listener=listener)

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    workers = ranks(2, fresh=True, init=False)
    workers.start(body)
    port = workers.wait_for(0, "port")
    for rank in range(2):
        workers.tell(rank, port)
    assert [outcome.value for outcome in workers.finish()] == [2.0, 2.0]
    assert sum_over("tcp://[::1]:0", 0, 1) == 1.0
    serve_store(host="::", timeout=LIMIT).set("reached", "")


@pytest.mark.parametrize("limit", [timedelta.max, timedelta(days=300 * 365)])
def test_a_server_may_have_any_limit(limit):
    with create_group("tcp://127.0.0.1:0", 0, 1, "patient", timeout=limit) as made:
        assert made.timeout == timedelta(days=36500)
        made.barrier()


def test_two_servers_never_share_a_port():
    servers = [serve_store(timeout=LIMIT) for _ in range(5)]
    assert len({server.port for server in servers}) == 5
    for number, server in enumerate(servers):
        server.set("who", str(number))
    assert [server.get("who") for server in servers] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_socket_that_is_not_bound_is_refused():
    with socket.socket() as fresh, pytest.raises(ValueError, match="bound to a port"):
        serve_store(fresh, timeout=LIMIT)
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams, pytest.raises(ValueError, match="needs a TCP socket"):
        datagrams.bind(("127.0.0.1", 0))
        serve_store(datagrams, timeout=LIMIT)


@pytest.mark.parametrize("number", [0, 2, 9, 11])
def test_a_server_that_lacks_descriptors_is_refused(ranks, number):
    """With 2 torch says that it has no loop; with 9 it would try for a minute to connect to its own server."""

    def body(rank, size):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with free_descriptors(number), pytest.raises(OSError, match=r"takes 12 descriptors, .*Too many open files"):
                serve_store(listener, timeout=LIMIT)
            serve_store(listener, timeout=LIMIT).set("key", "value")

    ranks(1, fresh=True, init=False).run(body)


def test_a_server_needs_no_more_descriptors_than_it_asks_for(ranks):
    def body(rank, size):
        with socket.create_server(("127.0.0.1", 0)) as listener, free_descriptors(12):
            store = serve_store(listener, timeout=LIMIT)
            with socket.create_connection(("127.0.0.1", store.port)):
                store.set("key", "value")
            return store.get("key")

    assert ranks(1, fresh=True, init=False).run(body) == [b"value"]


def test_a_file_in_a_folder_that_is_not_there_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        create_group(f"file://{tmp_path}/missing/store", 0, 1, "nowhere", timeout=LIMIT)


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("", "cannot be opened for writing: Is a directory"),
        ("/dev/null", "is no regular file"),
        ("/proc/store", "/proc"),
    ],
)
def test_a_file_that_can_be_no_store_is_refused_at_once(tmp_path, place, says):
    """A FileStore tries to open it for five minutes, and no signal ends that."""
    with pytest.raises(ValueError, match=says):
        create_group(f"file://{place or tmp_path}", 0, 1, "nowhere", timeout=LIMIT)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("tcp://127.0.0.1:99999", "Port out of range"),
        ("tcp://127.0.0.1:http", "Port could not be cast"),
        ("tcp://[::1:2950", "Invalid IPv6 URL"),
        ("tcp://127.0.0.1:0", "nobody can connect to port 0"),
    ],
)
def test_an_address_that_can_be_none_is_refused_by_its_name(uri, says):
    with pytest.raises(ValueError, match=f"^customccl: {re.escape(repr(uri))}: {re.escape(says)}"):
        create_group(uri, 1, 2, "nowhere", timeout=LIMIT)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: serve_store(timeout=5), "the timeout of a store must be a datetime.timedelta, not 5"),
        (lambda: open_store("tcp://127.0.0.1:1", 1, timeout=5), "the timeout of a store must be .*, not 5"),
        (lambda: serve_store(5, timeout=LIMIT), "listener must be a bound socket.socket, not 5"),
    ],
)
def test_what_is_no_limit_and_no_socket_is_refused(call, says):
    with pytest.raises(TypeError, match=f"customccl: {says}"):
        call()
