"""Which ranks share memory: pages that are shown, processes that show none, and what stays open."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time

import pytest
import torch.distributed as dist
from processes import LIMIT, fresh_launch, in_ranks, info

from torch_customccl.launch import Coordinator
from torch_customccl.launch import coordinator as coordinator_module
from torch_customccl.launch.meeting import Meeting
from torch_customccl.launch.node import Page, shares_memory
from torch_customccl.launch.roll_call import RollCall


def soon():
    return time.monotonic() + LIMIT.total_seconds()


@contextlib.contextmanager
def stopped_process(queue=8):
    """Gives the name of a page whose process has been stopped: it listens, and answers nobody."""
    name = f"customccl-node-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(queue)
        yield name


def test_a_process_that_was_stopped_does_not_answer():
    with stopped_process() as name, pytest.raises(TimeoutError):
        shares_memory(name, "0" * 64, time.monotonic())


def test_a_process_with_a_full_queue_does_not_answer():
    with stopped_process(queue=0) as name, socket.socket(socket.AF_UNIX) as first:
        first.connect("\0" + name)
        with pytest.raises(TimeoutError):
            shares_memory(name, "0" * 64, time.monotonic())


def test_who_was_stopped_before_it_showed_its_memory_is_named(monkeypatch):
    """Rank 0 has come and answers nobody; rank 1 waits for it until its limit, which is at once here."""

    def until_the_limit(name, digest, deadline):
        assert time.monotonic() < deadline < soon()
        return shares_memory(name, digest, time.monotonic())

    def rank(number):
        if number == 0:
            roll_call = dist.PrefixStore(f"customccl/{launch}/0/roll call", store)
            RollCall(roll_call, 0, 2, json.dumps([name, "0" * 64, "a node"])).gather("meeting", LIMIT)
        else:
            says = f"showing of memory in customccl/{launch}/0/.* on rank 1: rank 0 did not come within 60 s"
            with pytest.raises(TimeoutError, match=says):
                Coordinator(info(1, 2, launch), timeout=LIMIT)

    launch, store = fresh_launch(), dist.HashStore()
    monkeypatch.setattr(coordinator_module, "shares_memory", until_the_limit)
    monkeypatch.setattr(coordinator_module, "meet", lambda who, limit: Meeting(who, store))
    with stopped_process() as name:
        assert in_ranks(2, rank) == [None, None]


def test_nodes_are_told_apart_by_their_memory():
    """Another network namespace is another node: its processes cannot be handed our memory."""
    page = Page()
    code = """
import sys, time
from torch_customccl.launch.node import shares_memory
print(shares_memory(*sys.argv[1:], time.monotonic() + 60))
"""
    there = [sys.executable, "-c", code, page.name, page.digest]
    try:
        assert shares_memory(page.name, page.digest, soon())
        assert not shares_memory(page.name, "0" * 64, soon())
        assert not shares_memory("customccl-node-nobody", page.digest, soon())
        assert subprocess.run(there, capture_output=True, text=True, timeout=60).stdout == "True\n"
        inside = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
        if subprocess.run([*inside, "true"], capture_output=True, timeout=60).returncode != 0:
            pytest.skip("this machine lets nobody make a network namespace")
        assert subprocess.run([*inside, *there], capture_output=True, text=True, timeout=60).stdout == "False\n"
    finally:
        page.close()
    assert not shares_memory(page.name, page.digest, soon())
