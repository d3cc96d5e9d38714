"""Who listens for messages while something else happens: one to oneself, a commit, the program ends, no memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from harness.rank import error_of
from harness.settings import GROUP_TIMEOUT_S
from nests import Request
from shared import group

ENDING = """
import threading
import torch.distributed as dist
from datetime import timedelta
from torch_customccl import create_group

made = create_group(dist.HashStore(), 0, 1, "ending", timeout=timedelta(minutes=5))
listening = [lambda: made.recv_message(0), lambda: made.recv_message(), lambda: made.open_endpoint("here").recv()]
threads = [threading.Thread(target=listen, daemon=True) for listen in listening]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(0.2)  # until it has begun to wait
    assert thread.is_alive()
"""


@pytest.mark.parametrize("turn", range(3))
def test_a_program_ends_while_its_threads_listen(turn):
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=GROUP_TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("size", [10, 100_000, 3_000_000])
@pytest.mark.parametrize("src", [0, None], ids=["named", "anybody"])
def test_a_message_to_oneself_reaches_a_thread_that_waits(alone, src, size):
    got = []
    listener = threading.Thread(target=lambda: got.append(alone.recv_message(src)))
    listener.start()
    listener.join(0.05)  # most probably it waits then
    alone.send_message(b"x" * size, 0)
    listener.join(GROUP_TIMEOUT_S)
    assert got == [b"x" * size]
    alone.barrier()


def test_commit_does_not_wait_for_those_who_listen(ranks):
    def body(rank, size):
        made = group(rank, size, "listening")
        raised = []
        listener = threading.Thread(target=lambda: raised.append(error_of(made.recv_message, 1 - rank, 9)))
        listener.start()
        listener.join(0.05)
        made.prepare(["1", "0"]).wait()
        made.commit()
        listener.join(GROUP_TIMEOUT_S / 2)
        assert not listener.is_alive() and raised[0].is_a("DistBackendError"), raised
        made.barrier()
        made.close()

    ranks(2).run(body)


def address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def test_a_receiver_without_memory_loses_the_message_alone(ranks):
    def body(rank, size):
        with group(rank, size, "memory") as made:
            for hidden in (False, True):
                large = torch.ones(50_000_000)
                if rank == 0:
                    made.send_message(Request("r", large[:1].numpy(), large) if hidden else large, 1)
                else:
                    del large
                    before = resource.getrlimit(resource.RLIMIT_AS)
                    resource.setrlimit(resource.RLIMIT_AS, (address_space() + (64 << 20), before[1]))
                    raised = error_of(made.recv_message, 0)
                    resource.setrlimit(resource.RLIMIT_AS, before)
                    assert raised.is_a("MemoryError") or "allocate memory" in raised.text, raised
                made.barrier()

    workers = ranks(2, fresh=True)
    workers.start(body)
    workers.finish()
