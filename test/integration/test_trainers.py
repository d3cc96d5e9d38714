"""accelerate and lightning, as from PyPI: a small training on two ranks equals one in one process."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from harness.programs import Program, environment, programs, starting_quickly

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("trainer", ["accelerate", "lightning"])
def test_training_equals_training_in_one_process(trainer):
    if importlib.util.find_spec(trainer) is None:
        pytest.skip(f"{trainer} is not installed (pip install {trainer})")

    def launch() -> Program:
        options = ["--standalone", "--nproc-per-node", "2"]
        name = str(PROGRAMS / f"train_with_{trainer}.py")
        env = starting_quickly(environment())
        return Program(name, *options, env=env, module="torch.distributed.run")

    with programs([launch]) as (program,):
        ended = program.end(limit=100)
    assert ended.exit_code == 0, ended.output
    for rank in range(2):
        assert f"rank {rank} learnt what one process learns" in ended.output, ended.output
