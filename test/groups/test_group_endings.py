"""A group ends, or the program does, also while a membership is being prepared: nothing stays behind."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch
import torch.distributed as dist
from harness.rank import share_no_memory
from harness.settings import GROUP_TIMEOUT_S
from shared import LIMIT, group, total

from torch_customccl import create_group, serve_store
from torch_customccl.group_change import Change

# A guest that says it is there, and never meets: what a process leaves that was killed between the two.
GUEST = """
def guest(change):
    place, nonces = change._attempt._place, [change._attempt._nonce, "of-the-guest"]
    place.set("here/guest", nonces[1])
    place.set("sees/" + nonces[1], digest_of(nonces))
"""

ENDING = """
import sys
import torch.distributed as dist
from datetime import timedelta
from torch_customccl import create_group
from torch_customccl.group_outcome import digest_of
{guest}
made = create_group(dist.HashStore(), 0, 1, "ending", timeout=timedelta(minutes=5))
guest(made.prepare(["0", "guest"], timeout=timedelta(milliseconds={limit_ms})))
"""


def guest(change: Change) -> None:
    names: dict[str, object] = {}
    exec("from torch_customccl.group_outcome import digest_of\n" + GUEST, names)
    names["guest"](change)  # type: ignore[operator]


@pytest.mark.parametrize("ends", ["close", "drop", "another list"])
def test_threads_that_prepare_end_with_what_is_prepared(ends):
    def preparing() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "customccl-prepare"]

    with create_group(dist.HashStore(), 0, 1, "threads", timeout=LIMIT) as made:
        change = made.prepare(["0", "guest"])
        guest(change)
        threads = preparing()
        assert threads
        if ends == "close":
            made.close()
        elif ends == "drop":
            change.drop()
        else:
            made.prepare(["0"]).wait()
        for thread in threads:
            thread.join(GROUP_TIMEOUT_S / 2)
            assert not thread.is_alive()


def test_a_group_whose_store_is_gone_closes_while_it_prepares():
    server = serve_store(timeout=LIMIT)
    client = dist.TCPStore(server.host, server.port, is_master=False, timeout=LIMIT)
    made = create_group(client, 0, 1, "without a store", timeout=LIMIT)
    change = made.prepare(["0", "guest"])
    del server
    made.close()
    with pytest.raises((RuntimeError, dist.DistError)):
        change.wait()


@pytest.mark.parametrize("limit_ms", [60_000, 100, 20])
def test_a_program_ends_while_it_prepares(limit_ms):
    program = ENDING.format(guest=GUEST, limit_ms=limit_ms)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=GROUP_TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")


def test_groups_over_gloo_end_while_its_threads_still_hold_tensors(ranks):
    """Those threads need Python's lock to let go of them, and the end of the group waits for the threads."""

    def body(rank, size):
        if rank == 0:
            share_no_memory()
        for number in range(20):
            with group(rank, size, f"gloo {number}") as made:
                assert total(made) == 3.0
                assert made._get_backend(torch.device("cpu")).name() == "gloo"
            del made
        return "all"

    assert ranks(2, fresh=True, init=False).run(body) == ["all"] * 2
