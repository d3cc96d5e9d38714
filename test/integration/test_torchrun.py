"""torchrun restarts a job of which one rank died, on the same store."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness.programs import Program, environment, programs

PROGRAM = str(Path(__file__).parent / "programs" / "dies_once.py")


@pytest.mark.parametrize(
    "rendezvous",
    [["--standalone"], ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]],
    ids=["standalone", "c10d"],
)
@pytest.mark.parametrize("death", ["SIGKILL", "exit"])
def test_a_job_goes_on_after_one_rank_died_once(death, rendezvous):
    """The elastic agent keeps its store over restarts: a rank must not find its predecessor's addresses there."""
    options = ["--nproc-per-node", "2", "--max-restarts", "1", *rendezvous]

    def launch() -> Program:
        return Program(PROGRAM, *options, env=environment(TEST_DEATH=death), module="torch.distributed.run")

    with programs([launch]) as (program,):
        ended = program.end()
    assert ended.exit_code == 0, ended.output
    for rank in range(2):
        assert f"rank {rank} of 2, start 1: 6.0" in ended.output, ended.output
