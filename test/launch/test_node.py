"""Which ranks share memory: pages that are shown, processes that show none, and what stays open."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time

import pytest
import torch.distributed as dist
from harness.descriptors import free_descriptors
from harness.interrupt import Interrupt
from processes import LIMIT, fresh_launch, in_ranks, info

from torch_customccl._pauses import pauses
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


def opened():
    """What this process has open, and how many of its threads show a page."""
    links = []
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing
            links.append(os.readlink(f"/proc/self/fd/{each}"))
    return sorted(links), sum(thread.name == "customccl-node" for thread in threading.enumerate())


def wait_until_opened(expected):
    """The thread of a page that nobody knows any more ends by itself."""
    for _ in pauses(soon()):
        if opened() == expected:
            return
        gc.collect()
    assert opened() == expected


@pytest.mark.parametrize("number", [0, 1])  # not even its memory; its memory and no socket
def test_a_page_that_lacks_descriptors_leaves_nothing_open(ranks, number):
    def body(rank, size):
        before = opened()
        with free_descriptors(number), pytest.raises(OSError, match="Too many open files"):
            Page()
        wait_until_opened(before)

    ranks(1, fresh=True, init=False).run(body)


@pytest.mark.parametrize("shown", [False, True])
def test_a_page_without_a_descriptor_for_who_asks_waits_for_one_or_its_end(ranks, shown):
    def body(rank, size):
        before = opened()
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(LIMIT.total_seconds())
            with free_descriptors(2):
                page = Page()
                line.connect("\0" + page.name)
                if not shown:
                    page.close()
            if shown:
                _, [memory], _, _ = socket.recv_fds(line, 1, 1)
                os.close(memory)
                page.close()
        wait_until_opened(before)

    ranks(1, fresh=True, init=False).run(body)


def test_an_interrupt_anywhere_leaves_no_page_open(ranks):
    def body(rank, size):
        files = ("launch/node.py", "launch/coordinator.py")
        Coordinator(info(0, 1, fresh_launch()), timeout=LIMIT)  # what is loaded at the first use
        before = opened()
        interrupted = True
        number = 0
        while interrupted:
            number += 1
            with (
                contextlib.suppress(KeyboardInterrupt),
                Interrupt(number, files, ("call", "return", "c_return")) as interrupt,
            ):
                Coordinator(info(0, 1, fresh_launch()), timeout=LIMIT)
            interrupted = interrupt.left <= 0
            wait_until_opened(before)
        assert number > 20  # else nothing was interrupted

    ranks(1, fresh=True, init=False).run(body)
