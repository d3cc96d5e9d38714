"""torchrun restarts a job of which one rank died, on the same store."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.programs import Program, environment, programs, starting_quickly

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    ("death", "rendezvous"),
    [("SIGKILL", ["--standalone"]), ("exit", ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"])],
    ids=["SIGKILL-standalone", "exit-c10d"],
)
def test_a_job_goes_on_after_one_rank_died_once(death, rendezvous):
    """The elastic agent keeps its store over restarts: a rank must not find its predecessor's addresses there."""
    output = restarted("dies_once.py", 2, rendezvous, TEST_DEATH=death)
    for rank in range(2):
        assert f"rank {rank} of 2, start 1: 6.0" in output, output


@pytest.mark.parametrize(("moment", "victim"), [("world", 0), ("world", 1), ("group", 1)])
def test_a_job_goes_on_after_one_rank_died_before_it_joined(moment, victim):
    """The ranks do not agree then on how many groups there were, and what the others left lies where it comes to."""
    output = restarted("dies_early.py", 2, ["--standalone"], TEST_MOMENT=moment, TEST_VICTIM=str(victim))
    for rank in range(2):
        assert f"rank {rank} of 2, start 1: 3.0 3.0" in output, output


def restarted(name: str, size: int, rendezvous: list[str], **more: str) -> str:
    options = ["--nproc-per-node", str(size), "--max-restarts", "1", "--monitor-interval", "0.1", *rendezvous]

    def launch() -> Program:
        env = starting_quickly(environment(**more))
        return Program(str(PROGRAMS / name), *options, env=env, module="torch.distributed.run")

    with programs([launch]) as (program,):
        ended = program.end()
    assert ended.exit_code == 0, ended.output
    return ended.output
