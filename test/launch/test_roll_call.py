"""Meetings that fail on a rank and are tried again, in a store that outlives them, as torchrun's agent's does."""

from __future__ import annotations

import random
import secrets
import threading
import time
from datetime import timedelta

import pytest
import torch.distributed as dist
from harness.settings import rounds
from processes import LIMIT, fresh_launch, in_ranks

from torch_customccl.launch import Coordinator, LaunchInfo
from torch_customccl.launch.roll_call import RollCall

SHORT = timedelta(milliseconds=300)


@pytest.fixture
def server():
    return dist.TCPStore("127.0.0.1", 0, None, True, LIMIT, wait_for_workers=False)


def client(server):
    return dist.TCPStore("127.0.0.1", server.port, None, False, LIMIT, wait_for_workers=False)


def test_trying_again_under_torchrun(server, monkeypatch):
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    for name, value in (place | {"TORCHELASTIC_USE_AGENT_STORE": "True"}).items():
        monkeypatch.setenv(name, value)
    launch = {"TORCHELASTIC_RUN_ID": fresh_launch(), "WORLD_SIZE": "2"} | place
    infos = [LaunchInfo.detect(launch | {"RANK": str(rank)}) for rank in (0, 1)]
    for _ in range(3):  # rank 0 alone, several times
        with pytest.raises(TimeoutError, match=r"rank 1 did not come within 0\.3 s"):
            Coordinator(infos[0], timeout=SHORT)
    for _ in range(2):
        found = in_ranks(2, lambda rank: Coordinator(infos[rank], timeout=LIMIT).allgather(b"%d" % rank))
        assert found == [[b"0", b"1"]] * 2


def test_all_meet_or_none(server):
    """Ranks whose time is up at random moments: each gathering that one rank was in, all were in, in the same order."""
    size, wanted = 3, rounds(10, 100)
    done = [0] * size

    def body(rank):
        store, times, met = client(server), random.Random(rank), []
        while min(done) < wanted:
            try:
                name, letters = RollCall(store, rank, size, secrets.token_hex(8)).gather(
                    "test", timedelta(milliseconds=10 ** times.uniform(-0.5, 2))
                )
            except TimeoutError:
                continue
            assert len(set(letters)) == size and name not in met
            met.append(name)
            done[rank] += 1
        return met

    outcomes = in_ranks(size, body)
    assert len(outcomes[0]) == wanted and outcomes == [outcomes[0]] * size


def test_who_was_killed_is_replaced(server):
    """Its letter is read by others; the gathering that they sign with it does not meet."""
    server.set("letter/0", "as if it had been killed")
    late = threading.Timer(0.3, lambda: found.append(RollCall(client(server), 0, 2, "new").gather("test", LIMIT)))
    found = []
    late.start()
    found.append(RollCall(client(server), 1, 2, "other").gather("test", LIMIT))
    late.join()
    assert found[0] == found[1] and found[0][1] == ["new", "other"]


def test_two_processes_with_one_rank(server):
    """In a store without a door: who spoke first is told so."""
    first = threading.Thread(target=lambda: outcome.append(in_ranks(1, waits)[0]))
    outcome = []

    def waits(_):
        return RollCall(client(server), 0, 2, "first").gather("test", LIMIT)

    server.set("letter/1", "")  # rank 1 has been here and left
    first.start()
    while not server.check(["letter/0"]):
        time.sleep(0.001)
    with pytest.raises(TimeoutError):
        RollCall(client(server), 0, 2, "second").gather("test", SHORT)
    first.join()
    assert isinstance(outcome[0], ConnectionError) and "another process speaks for rank 0" in str(outcome[0])


def test_little_stays_in_the_store(server):
    before = server.num_keys()
    for _ in range(5):
        in_ranks(2, lambda rank: RollCall(client(server), rank, 2, secrets.token_hex(8)).gather("test", LIMIT))
    assert server.num_keys() - before == 2  # the places of the letters
