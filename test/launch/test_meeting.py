"""Finding rank 0: strangers at its port, ports drawn from the launch id, restarts, many launches at once."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist
from harness.descriptors import free_descriptors
from harness.settings import rounds
from processes import LIMIT, coordinators, fresh_launch, in_ranks, info
from strangers import stranger

from torch_customccl.launch import Coordinator, LaunchInfo, door, entrance, store_client
from torch_customccl.launch.meeting import forget, meet
from torch_customccl.launch.places import launch_key
from torch_customccl.launch.ports import drawn_ports, hold_port, own_addresses, resolve


def drip(line):
    """Never a whole line, and never silent for long. How many bytes it sent before the other side hung up."""
    sent = 0
    with contextlib.suppress(OSError):
        while True:
            line.sendall(b".")
            sent += 1
            time.sleep(0.05)
    return sent


STRANGERS = {
    "hangs up": (lambda line: line.close(), "hung up|broke the connection off"),
    "speaks first": (lambda line: line.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "no rank 0 of customccl .it said 'SSH-2.0"),
    "echoes": (lambda line: line.sendall(line.recv(300)), "no rank 0 of customccl"),
    "a web server": (lambda line: line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "it said 'HTTP/1.1 400"),
    "drips": (drip, r"did not answer within 1 s"),
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_at_the_port_is_recognised(kind, monkeypatch):
    answer, says = STRANGERS[kind]
    if kind == "drips":
        monkeypatch.setattr(door, "PATIENCE_S", 1.0)
    with stranger(answer) as port, pytest.raises(ConnectionError, match=f"did not find its rank 0: .*({says})"):
        Coordinator(info(1, 2, fresh_launch(), master_port=port), timeout=LIMIT)


def test_a_deaf_stranger_is_recognised(monkeypatch):
    monkeypatch.setattr(door, "PATIENCE_S", 0.2)
    with stranger(lambda line: None) as port, pytest.raises(ConnectionError, match=r"did not answer within 0\.2 s"):
        Coordinator(info(1, 2, fresh_launch(), master_port=port), timeout=LIMIT)


def test_another_launch_at_the_port_is_recognised():
    """Other id, other restart, other size: each is another launch."""
    launch = fresh_launch()
    with hold_port() as probe:
        port = probe.getsockname()[1]

    first = info(0, 2, launch, master_port=port)
    late = threading.Thread(target=lambda: Coordinator(first, timeout=LIMIT).barrier(), daemon=True)
    late.start()
    for name, restart, size in (("another", 0, 2), (launch, 1, 2), (launch, 0, 3)):
        wrong = info(1, size, name, master_port=port, restart_count=restart)
        with pytest.raises(ConnectionError, match="rank 0 of another launch answers"):
            Coordinator(wrong, timeout=LIMIT)
    Coordinator(info(1, 2, launch, master_port=port), timeout=LIMIT).barrier()
    late.join(60)
    assert not late.is_alive()


def test_a_store_of_torch_at_the_port_is_no_rank_0(monkeypatch):
    monkeypatch.setattr(door, "PATIENCE_S", 0.5)
    store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    with pytest.raises(ConnectionError, match="did not find its rank 0"):
        Coordinator(info(1, 2, fresh_launch(), master_port=store.port), timeout=LIMIT)


def test_a_port_that_is_taken():
    with hold_port() as held:
        taken = held.getsockname()[1]
        with pytest.raises(ConnectionError, match=f"port {taken} of this machine is held by another process"):
            Coordinator(info(0, 2, fresh_launch(), master_port=taken), timeout=LIMIT)


def test_two_processes_with_one_rank():
    launch = fresh_launch()
    ours = [info(rank, 2, launch) for rank in (0, 1)]
    again = info(1, 2, launch, node_rank=0)  # another record: another process, for all that rank 0 can tell

    def body(number):
        return Coordinator([*ours, again][number], timeout=timedelta(seconds=10)).allgather(b"")

    outcomes = in_ranks(3, body)
    assert outcomes[0] == [b""] * 2
    refused = [outcome for outcome in outcomes[1:] if isinstance(outcome, Exception)]
    assert len(refused) == 1
    # Who comes when everybody is there finds the door closed and nobody behind it.
    error, words = (
        (TimeoutError, "waited") if isinstance(refused[0], TimeoutError) else (ConnectionError, "here already")
    )
    assert isinstance(refused[0], error) and words in str(refused[0])


def test_two_processes_of_rank_0():
    """On a drawn port the second would pass on to the next one; on a given port it would blame a stranger."""
    with hold_port() as probe:
        given = probe.getsockname()[1]
    launch = fresh_launch() + os.urandom(4).hex()
    for more in ({}, {"master_port": given}):
        meeting = meet(info(0, 2, launch, **more), LIMIT)
        with pytest.raises(ConnectionError, match=r"rank 0 is here already\. Two processes were given the same rank"):
            Coordinator(info(0, 2, launch, node_rank=0, **more), timeout=LIMIT)
        forget(meeting)


def below_an_agent(monkeypatch, port):
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in agent.items():
        monkeypatch.setenv(name, value)
    rank = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}
    return LaunchInfo.detect({**agent, **rank, "TORCHELASTIC_RUN_ID": fresh_launch()}, source="torchrun")


def test_an_agent_that_is_not_there_is_awaited_until_the_limit(monkeypatch):
    with hold_port() as probe:
        port = probe.getsockname()[1]
    started = below_an_agent(monkeypatch, port)
    with pytest.raises(TimeoutError, match=f"no store at 127.0.0.1:{port}"):
        Coordinator(started, timeout=timedelta(seconds=0.3))


def test_a_deaf_stranger_in_an_agents_place_is_recognised(monkeypatch):
    monkeypatch.setattr(store_client, "_LEAST_S", 0.2)
    with stranger(lambda line: None) as port:
        started = below_an_agent(monkeypatch, port)
        with pytest.raises(ConnectionError, match=f"holds 127.0.0.1:{port} but did not answer as a store"):
            Coordinator(started, timeout=timedelta(seconds=0.3))


def test_who_has_no_descriptor_left_blames_no_port_and_no_host(ranks):
    """Rank 0, which would serve the store: 24 ports are drawn, and none of them is held by others."""

    def body(rank, size, launch):
        started = info(0, 2, launch)
        with free_descriptors(0):
            assert str(resolve("127.0.0.1")) == "127.0.0.1" and str(resolve("::1")) == "::1"
            for call in (lambda: Coordinator(started, timeout=LIMIT), hold_port, lambda: resolve("localhost")):
                with pytest.raises(OSError, match="Too many open files") as caught:
                    call()
                assert not isinstance(caught.value, ConnectionError)

    ranks(1, fresh=True, init=False).run(body, fresh_launch())


def test_an_unknown_host_is_named(monkeypatch):
    where = {"master_addr": "no such host", "master_port": 20000}
    with pytest.raises(ConnectionError, match=r"knows no host 'no such host': .*given by master_addr, source"):
        Coordinator(info(0, 2, fresh_launch(), local_size=2, **where), timeout=LIMIT)
    with pytest.raises(TimeoutError, match=r"at no such host:20000 \(\[Errno -\d+\] .*not known\)\. Is rank 0"):
        Coordinator(info(1, 2, fresh_launch(), local_size=2, **where), timeout=timedelta(seconds=0.1))
    monkeypatch.setenv("MASTER_ADDR", "no such host")
    with pytest.raises(ConnectionError, match="given by MASTER_ADDR"):
        Coordinator(info(0, 2, fresh_launch(), local_size=2, **where), timeout=LIMIT)


def test_a_crowd_of_strangers_is_counted(monkeypatch):
    def knock(host, port, *_):
        raise door.ForeignError(f"somebody at {port}")

    monkeypatch.setattr(entrance, "knock", knock)
    with pytest.raises(TimeoutError) as caught:
        Coordinator(info(1, 2, "a crowd"), timeout=timedelta(milliseconds=100))  # 24 different ports
    assert str(caught.value).count("somebody at") == 3 and "; 21 more strangers." in str(caught.value)


def test_a_meeting_that_fails_leaves_nothing_open():
    launch = fresh_launch() + os.urandom(4).hex()

    def descriptors():
        with pytest.raises(TimeoutError):
            Coordinator(info(0, 2, launch), timeout=timedelta(milliseconds=50))
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    first = descriptors()
    assert max(descriptors() for _ in range(4)) <= first


def test_drawn_ports():
    ports = drawn_ports("a/0/2")
    assert ports == drawn_ports("a/0/2") != drawn_ports("a/1/2")
    assert all(20000 <= port < 32000 for port in ports)


def test_strangers_on_drawn_ports_are_passed_over(monkeypatch):
    monkeypatch.setattr(door, "PATIENCE_S", 0.5)
    launch = fresh_launch() + os.urandom(4).hex()
    ports = drawn_ports(launch_key(info(0, 2, launch)))
    with stranger(lambda line: None, ports[0]), stranger(lambda line: line.close(), ports[1]):
        assert coordinators(2, lambda coordinator: coordinator.allgather(b"!"), launch_id=launch) == [[b"!"] * 2] * 2


def test_launches_started_at_the_same_time():
    """Eight launches of two ranks, with no address and no port, all at once, and restarts of the same launch beside."""
    launches = [(fresh_launch() + os.urandom(4).hex(), restart) for _ in range(4) for restart in (0, 1)]

    def body(number):
        name, restart = launches[number // 2]
        coordinator = Coordinator(info(number % 2, 2, name, restart_count=restart), timeout=LIMIT)
        return coordinator.allgather(f"{name}/{restart}".encode())

    expected = [[f"{name}/{restart}".encode()] * 2 for name, restart in launches for _ in range(2)]
    assert in_ranks(16, body) == expected


@pytest.mark.long
def test_jobs_of_processes_started_at_the_same_time(ranks):
    """Nobody gives them an address or a port."""

    def body(rank, size, launch):
        return Coordinator(info(rank, size, launch), timeout=LIMIT).allgather(launch.encode())

    names = [fresh_launch() + os.urandom(4).hex() for _ in range(rounds(4, 50))]
    jobs = [ranks(2, fresh=True, init=False) for _ in names]
    for job, name in zip(jobs, names, strict=True):
        job.start(body, name)
    for job, name in zip(jobs, names, strict=True):
        assert [outcome.value for outcome in job.finish()] == [[name.encode()] * 2] * 2


def test_given_addresses():
    with hold_port() as probe:
        port = probe.getsockname()[1]
    for host in ("localhost", own_addresses()[0]):
        more = {"master_addr": host, "master_port": port}
        assert coordinators(2, lambda coordinator: coordinator.allgather(b"1"), **more) == [[b"1"] * 2] * 2
    assert str(resolve("127.0.0.1")) == "127.0.0.1" and str(resolve("::1")) == "::1"


def test_bare_variables():
    with hold_port() as probe:
        port = str(probe.getsockname()[1])

    def body(rank):
        variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        return Coordinator(LaunchInfo.detect(variables), timeout=LIMIT).broadcast(b"hello")

    assert in_ranks(2, body) == [b"hello"] * 2
