"""Who hears of a failure (torch 2.15 on): the flight recorder, which takes seconds to write, and hooks of users."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from harness.programs import environment
from harness.rank import error_of, in_a_while
from harness.torch_version import since_torch

pytestmark = since_torch("2.15")


def test_an_abort_hook_hears_of_a_failure_once_and_of_a_refused_call_never(ranks):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        heard = []
        backend.register_abort_hook(7, lambda: heard.append("over"))
        assert error_of(dist.all_reduce, torch.ones(3), op=dist.ReduceOp.BAND).is_a("ValueError")
        backend.suspend()
        assert error_of(dist.all_reduce, torch.ones(3)).is_a("ValueError")
        assert error_of(lambda: dist.all_reduce(torch.ones(3), async_op=True).wait()).is_a("ValueError")
        backend.resume()
        assert heard == []
        dist.barrier()
        if rank == 0:
            work = dist.all_reduce(torch.ones(3), async_op=True)
            backend.abort()
            assert error_of(work.wait).is_a("DistBackendError")
            assert error_of(dist.barrier).is_a("DistBackendError")
        else:
            assert error_of(dist.barrier).is_a("DistBackendError")
        assert in_a_while(lambda: heard)
        assert heard == ["over"]

    ranks(2, fresh=True).run(body)


@pytest.mark.parametrize("how", ["call", "wait"])
def test_a_slow_abort_hook_keeps_no_error_back(ranks, how):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        seen, outcome = threading.Event(), []
        backend.register_abort_hook(7, lambda: outcome.append(seen.wait(10)))
        dist.barrier()
        if rank == 0:
            backend.abort()
        elif how == "call":
            assert error_of(dist.all_reduce, torch.ones(3)).is_a("DistBackendError")
        else:
            assert error_of(dist.all_reduce(torch.ones(3), async_op=True).wait).is_a("DistBackendError")
        seen.set()
        assert in_a_while(lambda: outcome)
        assert outcome == [True]

    ranks(2, fresh=True).run(body)


@pytest.mark.parametrize("rank", ["program", "spawn"])
def test_a_process_ends_when_its_abort_hooks_have(tmp_path, rank):
    program, file = Path(__file__).parent / "programs" / "slow_abort_hook.py", tmp_path / "file"
    command = [sys.executable, str(program), rank, str(file)]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=100)
    assert ended.returncode == 5, ended.stderr
    assert file.read_text() == "written"
